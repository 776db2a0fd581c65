package extract

import (
	"fmt"
	"strconv"
	"strings"
)

// parsePath reads the path of a value in a JSON document: names joined by dots, or a JSON pointer
// (RFC 6901) when it begins with a slash. An element that is a number is also the index of an array.
func parsePath(text string) ([]string, error) {
	if !strings.HasPrefix(text, "/") {
		elements := strings.Split(text, ".")
		for _, element := range elements {
			if element == "" {
				return nil, fmt.Errorf("path %q has an empty name: names are joined by single dots; for a name with a dot in it write a JSON pointer, such as /a.b", text)
			}
		}
		return elements, nil
	}
	elements := strings.Split(text[1:], "/")
	for i, element := range elements {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(element), "~") {
			return nil, fmt.Errorf("path %q: in a JSON pointer ~ is written ~0 and / is written ~1", text)
		}
		elements[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(element)
	}
	return elements, nil
}

// node is a place in a record or document, as a tree of names.
type node struct {
	name     string
	index    int   // name as the index of an array; -1 when it is none
	columns  []int // whose value this is, by position in the row
	children []*node
	hint     int // child that probably comes next: most records have their names in one order
}

func newNode(name string) *node {
	index := -1
	if n, err := strconv.ParseUint(name, 10, 31); err == nil && strconv.FormatUint(n, 10) == name {
		index = int(n)
	}
	return &node{name: name, index: index}
}

// add returns the node at the end of the path, which it makes if need be.
func (n *node) add(path []string) *node {
	if len(path) == 0 {
		return n
	}
	for _, child := range n.children {
		if child.name == path[0] {
			return child.add(path[1:])
		}
	}
	child := newNode(path[0])
	n.children = append(n.children, child)
	return child.add(path[1:])
}

// named returns the child with this name, or nil.
func (n *node) named(name []byte) *node {
	for k := range n.children {
		at := n.hint + k
		if at >= len(n.children) {
			at -= len(n.children)
		}
		if child := n.children[at]; child.name == string(name) {
			n.hint = at + 1
			if n.hint == len(n.children) {
				n.hint = 0
			}
			return child
		}
	}
	return nil
}

// at returns the child for an index of an array, or nil.
func (n *node) at(index int) *node {
	for _, child := range n.children {
		if child.index == index {
			return child
		}
	}
	return nil
}
