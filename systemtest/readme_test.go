package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/systemtest/stack"
)

// console finds the fences of commands with their output.
var console = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// TestDocumentsPrintWhatTheySay runs every command in the documents that is shown with its output.
func TestDocumentsPrintWhatTheySay(t *testing.T) {
	t.Parallel()
	needPrograms(t)
	documents, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, document := range append(documents, "../README.md") {
		for _, fence := range console.FindAllStringSubmatch(read(t, document), -1) {
			for _, block := range strings.Split(fence[1], "$ ")[1:] {
				line, want, _ := strings.Cut(block, "\n")
				commands++
				command := exec.Command("bash", "-c", line)
				command.Dir = ".."
				command.Env = append(stack.Environment(), "PATH="+shared.binaries.Folder+":"+os.Getenv("PATH"))
				got, err := command.Output()
				if err != nil || string(got) != want {
					t.Errorf("%s: $ %s\n%v, prints\n%s\nwant\n%s", document, line, err, got, want)
				}
			}
		}
	}
	if commands < 3 {
		t.Errorf("found only %d commands", commands)
	}
}

// links finds the targets of Markdown links inside the repository.
var links = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

// TestDocumentsLinkToWhatIsThere follows every relative link.
func TestDocumentsLinkToWhatIsThere(t *testing.T) {
	t.Parallel()
	listed, err := exec.Command("git", "-C", "..", "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	for _, document := range strings.Fields(string(listed)) {
		for _, link := range links.FindAllStringSubmatch(read(t, filepath.Join("..", document)), -1) {
			followed++
			if _, err := os.Stat(filepath.Join("..", filepath.Dir(document), link[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", document, link[1])
			}
		}
	}
	if followed < 10 {
		t.Errorf("followed only %d links", followed)
	}
}

// TestConnectionsInDocuments reads every connections.yaml that a document shows, as a worker would.
func TestConnectionsInDocuments(t *testing.T) {
	t.Parallel()
	read := 0
	for _, document := range repositoryFiles(t, ".md") {
		for _, fence := range yamlFences(string(mustRead(t, document))) {
			if !strings.HasPrefix(strings.TrimSpace(fence), "connections:") {
				continue
			}
			read++
			if _, err := connection.Parse(document, []byte(fence), func(string) (string, bool) { return "https://example.com/a-secret-value", true }); err != nil {
				t.Errorf("%s shows connections that a worker refuses: %v", document, err)
			}
		}
	}
	if read < 2 {
		t.Errorf("found only %d connections files", read)
	}
}
