package systemtest

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// programFolders are where the programs of the images stand.
var programFolders = map[string]string{"worker": "worker", "starter": "starter", "shop": "pipelines/orders/shop"}

// dockerfile is what the test looks at in the Dockerfile.
type dockerfile struct {
	stages map[string]*dockerStage
	last   string
}

type dockerStage struct {
	from       string
	built      map[string]string // by `go build -o`: the program's path and its package
	copied     map[string]string // by COPY --from=build: source and target
	user       string
	exposed    string
	entrypoint string
}

var (
	goBuild     = regexp.MustCompile(`go build [^&]*?-o (\S+) (\S+)`)
	copyFrom    = regexp.MustCompile(`^COPY --from=build (\S+) (\S+)$`)
	execForm    = regexp.MustCompile(`^ENTRYPOINT \["([^"]+)"\]$`)
	instruction = regexp.MustCompile(`^(FROM|USER|EXPOSE|COPY|ENTRYPOINT|RUN|WORKDIR|ENV)\s`)
)

func readDockerfile(t *testing.T) dockerfile {
	t.Helper()
	text := strings.ReplaceAll(string(readRepository(t, "Dockerfile")), "\\\n", " ")
	file := dockerfile{stages: map[string]*dockerStage{}}
	var stage *dockerStage
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !instruction.MatchString(line) {
			t.Fatalf("Dockerfile: %q is no instruction that this test knows", line)
		}
		words := strings.Fields(line)
		if words[0] == "FROM" {
			if len(words) != 4 || words[2] != "AS" {
				t.Fatalf("Dockerfile: %q does not name its stage", line)
			}
			stage = &dockerStage{from: words[1], built: map[string]string{}, copied: map[string]string{}}
			file.stages[words[3]], file.last = stage, words[3]
			continue
		}
		stage.read(words, line)
	}
	return file
}

func (s *dockerStage) read(words []string, line string) {
	switch words[0] {
	case "USER":
		s.user = words[1]
	case "EXPOSE":
		s.exposed = words[1]
	case "RUN":
		for _, match := range goBuild.FindAllStringSubmatch(line, -1) {
			s.built[match[1]] = match[2]
		}
	case "COPY":
		if match := copyFrom.FindStringSubmatch(line); match != nil {
			s.copied[match[1]] = match[2]
		}
	case "ENTRYPOINT":
		if match := execForm.FindStringSubmatch(line); match != nil {
			s.entrypoint = match[1]
		}
	}
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	file := readDockerfile(t)
	for name, stage := range file.stages {
		if _, own := file.stages[stage.from]; !own && !pinnedImage.MatchString(stage.from) {
			t.Errorf("stage %s: image %q is not pinned to a release", name, stage.from)
		}
	}
	build := file.stages["build"]
	for path, folder := range build.built {
		if !isProgram(t, folder) {
			t.Errorf("the Dockerfile builds %s from %s, which is no program", path, folder)
		}
	}
	for name, folder := range programFolders {
		checkImage(t, file, name, folder)
	}
	if file.last != "worker" {
		t.Errorf("the default target is %s", file.last)
	}
	checkGoVersion(t, build.from)
}

// checkImage follows one program from its package to the entry point of its image.
func checkImage(t *testing.T, file dockerfile, name, folder string) {
	t.Helper()
	stage, ok := file.stages[name]
	if !ok {
		t.Errorf("the Dockerfile has no stage %s", name)
		return
	}
	built := "/out/" + name
	if got := file.stages["build"].built[built]; got != "./"+folder {
		t.Errorf("%s is built from %q, not from ./%s", built, got, folder)
	}
	if target := stage.copied[built]; target == "" || target != stage.entrypoint {
		t.Errorf("stage %s copies %s to %q and starts %q", name, built, target, stage.entrypoint)
	}
	user := stage.user
	if base := file.stages[stage.from]; user == "" && base != nil {
		user = base.user
	}
	if user == "" || strings.HasPrefix(user, "root") || strings.HasPrefix(user, "0") {
		t.Errorf("stage %s runs as %q", name, user)
	}
}

func isProgram(t *testing.T, folder string) bool {
	t.Helper()
	packages, err := filepath.Glob(filepath.Join("..", folder, "main.go"))
	if err != nil || len(packages) != 1 {
		return false
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), packages[0], nil, parser.PackageClauseOnly)
	return err == nil && parsed.Name.Name == "main"
}

// checkGoVersion compares the builder with go.mod: GOTOOLCHAIN=local downloads no newer Go.
func checkGoVersion(t *testing.T, image string) {
	t.Helper()
	match := regexp.MustCompile(`(?m)^go (\d+)\.(\d+)`).FindSubmatch(readRepository(t, "go.mod"))
	if match == nil {
		t.Fatal("go.mod names no version of Go")
	}
	var major, minor int
	if _, err := fmt.Sscanf(image, "golang:%d.%d", &major, &minor); err != nil {
		t.Fatalf("the builder %q is no golang image: %v", image, err)
	}
	wantMajor, _ := strconv.Atoi(string(match[1]))
	wantMinor, _ := strconv.Atoi(string(match[2]))
	if major != wantMajor || minor < wantMinor {
		t.Errorf("the builder has Go %d.%d, go.mod wants %d.%d", major, minor, wantMajor, wantMinor)
	}
}

func TestComposeBuildsStagesOfTheDockerfile(t *testing.T) {
	t.Parallel()
	stages := readDockerfile(t).stages
	targets := map[string]bool{}
	for name, service := range readCompose(t).Services {
		if service.Build == nil {
			continue
		}
		targets[service.Build.Target] = true
		if stages[service.Build.Target] == nil || programFolders[service.Build.Target] == "" {
			t.Errorf("%s builds the target %q, which is no program's stage", name, service.Build.Target)
		}
		if !slices.Equal(service.CapDrop, []string{"ALL"}) || len(service.SecurityOpt) == 0 || !service.Init {
			t.Errorf("%s has rights that it does not need", name)
		}
	}
	if len(targets) != len(programFolders) {
		t.Errorf("docker-compose.yml builds %v, the programs are %v", targets, programFolders)
	}
}
