package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// digestForm is what decides the rows, and nothing else of the definition. A change to this struct,
// or to the JSON of a type in it, changes every digest: it needs a new number in Form.
type digestForm struct {
	Form      int          `json:"form"`
	Warehouse string       `json:"warehouse"`
	Timezone  string       `json:"timezone"`
	Steps     []digestStep `json:"steps"`
}

type digestStep struct {
	Name     string    `json:"name"`
	Needs    []string  `json:"needs"`
	HTTP     *HTTP     `json:"http,omitempty"`
	File     *File     `json:"file,omitempty"`
	Query    *Query    `json:"query,omitempty"`
	Load     *Load     `json:"load,omitempty"`
	SQL      *SQL      `json:"sql,omitempty"`
	Exec     *Exec     `json:"exec,omitempty"`
	Activity *Activity `json:"activity,omitempty"`
}

// digest is the SHA-256, in hex, of the canonical JSON of what decides the rows: the
// warehouse, the time zone and, of each step, its needs and its kind with the text of its SQL, all
// as written and with the steps sorted by name. The order and the form of the file, the description,
// the owner, the schedule, retries, time limits and defaults change nothing in it.
func (p *Pipeline) digest() string {
	form := digestForm{Form: 1, Warehouse: p.Warehouse}
	if p.Schedule != nil {
		form.Timezone = p.Schedule.Timezone
	}
	for i := range p.Steps {
		form.Steps = append(form.Steps, p.Steps[i].digestStep())
	}
	slices.SortFunc(form.Steps, func(a, b digestStep) int { return strings.Compare(a.Name, b.Name) })
	data, err := json.Marshal(form) // sorts the keys of maps
	if err != nil {
		return "" // cannot be: every value came from text
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (s *Step) digestStep() digestStep {
	d := digestStep{
		Name: s.Name, Needs: s.allNeeds(),
		HTTP: s.HTTP, File: s.File, Query: s.Query, Load: s.Load, SQL: s.SQL, Exec: s.Exec, Activity: s.Activity,
	}
	if s.HTTP != nil {
		read := *s.HTTP
		read.ResumeWithin = 0 // says when to start a listing again, not what is in it
		read.TaskQueue = ""   // says whose worker reads it
		d.HTTP = &read
	}
	return d
}
