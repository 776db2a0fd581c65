package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// loaded is a pipeline with the file it came from.
type loaded struct {
	file     string
	pipeline *pipeline.Pipeline
}

// parseFile reads one pipeline file. The error is a pipeline.Problems if the file can be read.
func parseFile(file string) (*pipeline.Pipeline, error) {
	data, err := readBounded(file)
	if err != nil {
		return nil, coded(exitUsage, fmt.Errorf("read the pipeline: %w", err))
	}
	parsed, problems := pipeline.Parse(pipeline.Source{File: file, Data: data, ReadFile: besideFile(file)})
	if len(problems) > 0 {
		return nil, problems
	}
	return parsed, nil
}

// readBounded reads a regular file, and of a large one just enough to see that it is too large: a pipe would
// never end, and neither would a device.
func readBounded(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return io.ReadAll(io.LimitReader(opened, pipeline.MaximumSize+1))
}

// besideFile reads the SQL files that a pipeline names, in the pipeline's own folder and below it
// only: what is read becomes part of the run's input.
func besideFile(file string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%s is not inside the folder of the pipeline", name)
		}
		return readBounded(filepath.Join(filepath.Dir(file), name))
	}
}

// parseAll reads every pipeline under the given files and folders. It returns all problems of all
// files at once; a name that two files use is one.
func parseAll(paths []string) ([]loaded, pipeline.Problems, error) {
	files, err := pipelineFiles(paths)
	if err != nil {
		return nil, nil, err
	}
	var all []loaded
	var problems pipeline.Problems
	firstFile := map[string]string{}
	for _, file := range files {
		parsed, err := parseFile(file)
		var found pipeline.Problems
		switch {
		case errors.As(err, &found):
			problems = append(problems, found...)
			continue
		case err != nil:
			return nil, nil, err
		}
		if first, taken := firstFile[parsed.Name]; taken {
			problems = append(problems, pipeline.Problem{
				File: file, Line: 1, Column: 1, Path: "pipeline", Code: "duplicate-pipeline",
				Message: fmt.Sprintf("the name %s is taken by %s; names are unique, since they begin the ids of runs", parsed.Name, first),
			})
			continue
		}
		firstFile[parsed.Name] = file
		all = append(all, loaded{file, parsed})
	}
	return all, problems, nil
}

// pipelineFiles returns the given files and, from the given folders, the pipelines in them, sorted
// and each once.
func pipelineFiles(paths []string) ([]string, error) {
	seen := map[string]bool{}
	var files []string
	add := func(file string) {
		if !seen[file] {
			seen[file] = true
			files = append(files, file)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, coded(exitUsage, fmt.Errorf("look for pipelines: %w", err))
		}
		if !info.IsDir() {
			add(path)
			continue
		}
		found, err := pipelinesBelow(path)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, usagef("there is no pipeline in %s: no file named pipeline.yaml, and no YAML file with a key `pipeline` or `steps`", path)
		}
		for _, file := range found {
			add(file)
		}
	}
	sort.Strings(files)
	return files, nil
}

func pipelinesBelow(folder string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); strings.HasPrefix(name, ".") && path != folder {
				return fs.SkipDir
			}
			return nil
		}
		// A link counts as what it leads to: mounted configuration often consists of links.
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return nil
		}
		is, err := isPipeline(path)
		if is {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for pipelines in %s: %w", folder, err)
	}
	return found, nil
}

// isPipeline tells pipelines from other YAML files. A file with the usual name always counts, so
// that a misspelt key in it is reported and not passed over.
func isPipeline(path string) (bool, error) {
	name := filepath.Base(path)
	switch filepath.Ext(name) {
	case ".yaml", ".yml":
	default:
		return false, nil
	}
	if strings.TrimSuffix(strings.TrimSuffix(name, ".yml"), ".yaml") == "pipeline" {
		return true, nil
	}
	data, err := readBounded(path)
	if err != nil {
		return false, err
	}
	var keys map[string]yaml.Node
	if yaml.Unmarshal(data, &keys) != nil {
		return bytes.HasPrefix(data, []byte("pipeline:")) || bytes.Contains(data, []byte("\npipeline:")), nil
	}
	_, named := keys["pipeline"]
	_, steps := keys["steps"]
	return named || steps, nil
}

// intervalOf returns the interval of a pipeline that --interval names by its start.
func intervalOf(p *pipeline.Pipeline, start string) (interval.Interval, error) {
	at, err := instantOf(p, start)
	if err != nil {
		return interval.Interval{}, err
	}
	return intervalAt(p, at)
}

// instantOf reads the start of an interval, in the pipeline's zone.
func instantOf(p *pipeline.Pipeline, start string) (time.Time, error) {
	if start == "" {
		return time.Time{}, usagef("--interval is missing: say where the interval starts, such as --interval 2026-01-15")
	}
	location, err := p.Location()
	if err != nil {
		return time.Time{}, err
	}
	at, err := interval.ParseInstant(start, location)
	if err != nil {
		return time.Time{}, usagef("--interval: %w", err)
	}
	return at, nil
}

func intervalAt(p *pipeline.Pipeline, start time.Time) (interval.Interval, error) {
	grid, err := p.Grid()
	if err != nil {
		return interval.Interval{}, err
	}
	owned, err := grid.StartingAt(start)
	if err != nil {
		return interval.Interval{}, usagef("--interval: %w", err)
	}
	return owned, nil
}
