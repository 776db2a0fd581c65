package systemtest

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/pipeline"
)

// No container engine is needed here: what can be wrong in docker-compose.yml, the Dockerfile and
// their files is found by reading them beside the programs.

// composeFile is the part of the Compose specification that docker-compose.yml uses. Decoding is
// strict: a key that is not here is unknown, or new and to be thought of.
type composeFile struct {
	Name      string                    `yaml:"name"`
	Services  map[string]composeService `yaml:"services"`
	Volumes   map[string]struct{}       `yaml:"volumes"`
	Temporal  map[string]string         `yaml:"x-temporal-client"`
	Starter   map[string]string         `yaml:"x-starter-environment"`
	Hardening map[string]any            `yaml:"x-hardened"`
}

type composeService struct {
	Image           string                       `yaml:"image"`
	Build           *composeBuild                `yaml:"build"`
	Restart         string                       `yaml:"restart"`
	StopGracePeriod string                       `yaml:"stop_grace_period"`
	DependsOn       map[string]composeDependency `yaml:"depends_on"`
	Environment     map[string]string            `yaml:"environment"`
	Volumes         []string                     `yaml:"volumes"`
	Ports           []string                     `yaml:"ports"`
	Healthcheck     *composeHealthcheck          `yaml:"healthcheck"`
	Entrypoint      []string                     `yaml:"entrypoint"`
	Command         []string                     `yaml:"command"`
	Profiles        []string                     `yaml:"profiles"`
	WorkingDir      string                       `yaml:"working_dir"`
	Init            bool                         `yaml:"init"`
	CapDrop         []string                     `yaml:"cap_drop"`
	SecurityOpt     []string                     `yaml:"security_opt"`
}

type composeBuild struct {
	Context string `yaml:"context"`
	Target  string `yaml:"target"`
}

type composeDependency struct {
	Condition string `yaml:"condition"`
}

type composeHealthcheck struct {
	Test        []string `yaml:"test"`
	Interval    string   `yaml:"interval"`
	Timeout     string   `yaml:"timeout"`
	Retries     int      `yaml:"retries"`
	StartPeriod string   `yaml:"start_period"`
}

const (
	conditionHealthy   = "service_healthy"
	conditionCompleted = "service_completed_successfully"
)

func readRepository(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func strictYAML(t *testing.T, name string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(readRepository(t, name)))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		t.Fatalf("%s holds more than one document", name)
	}
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	var file composeFile
	strictYAML(t, "docker-compose.yml", &file)
	if len(file.Services) == 0 {
		t.Fatal("docker-compose.yml has no services")
	}
	return file
}

func (f composeFile) service(t *testing.T, name string) composeService {
	t.Helper()
	service, ok := f.Services[name]
	if !ok {
		t.Fatalf("docker-compose.yml has no service %s", name)
	}
	return service
}

// oneShot reports whether others wait for the service to end.
func (f composeFile) oneShot(name string) bool {
	for _, service := range f.Services {
		if service.DependsOn[name].Condition == conditionCompleted {
			return true
		}
	}
	return false
}

// composeReference is a variable in a value of docker-compose.yml, with what follows its name.
var composeReference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)([^}]*)\}`)

// expand puts variables into a text; a missing one becomes its default.
func expand(text string, variables map[string]string) string {
	return composeReference.ReplaceAllStringFunc(text, func(match string) string {
		parts := composeReference.FindStringSubmatch(match)
		if value := variables[parts[1]]; value != "" {
			return value
		}
		return strings.TrimPrefix(parts[2], ":-")
	})
}

// exampleVariables reads docker/.env.example.
func exampleVariables(t *testing.T) map[string]string {
	t.Helper()
	variables := map[string]string{}
	for number, line := range strings.Split(string(readRepository(t, "docker/.env.example")), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if _, repeated := variables[name]; !found || repeated {
			t.Fatalf("docker/.env.example:%d: %q is not NAME=VALUE, or stands there twice", number+1, line)
		}
		variables[name] = value
	}
	return variables
}

// filledVariables are the example's with its gaps filled in, as a team would.
func filledVariables(t *testing.T) map[string]string {
	t.Helper()
	variables := exampleVariables(t)
	for name, value := range variables {
		if value == "" {
			variables[name] = "filled-in-" + strings.ToLower(name)
		}
	}
	return variables
}

// pinnedImage has a tag that names a release: two numbers at least.
var pinnedImage = regexp.MustCompile(`^[a-z0-9][a-z0-9./_-]*:v?[0-9]+(\.[0-9]+)+[A-Za-z0-9._-]*(@sha256:[0-9a-f]{64})?$`)

func TestComposeServices(t *testing.T) {
	t.Parallel()
	file := readCompose(t)
	for name, service := range file.Services {
		switch {
		case (service.Image == "") == (service.Build == nil):
			t.Errorf("%s has an image and a build, or neither", name)
		case service.Image != "" && !pinnedImage.MatchString(service.Image):
			t.Errorf("%s: image %q is not pinned to a release", name, service.Image)
		}
		if len(service.Profiles) > 0 {
			continue // run by hand
		}
		checkLifetime(t, file, name, service)
	}
}

// checkLifetime holds services that stay and those that end to what each needs.
func checkLifetime(t *testing.T, file composeFile, name string, service composeService) {
	t.Helper()
	if file.oneShot(name) {
		if !strings.HasPrefix(service.Restart, "on-failure:") || service.Healthcheck != nil {
			t.Errorf("%s ends by itself: it is tried again on failure (%q) and has no health check", name, service.Restart)
		}
		return
	}
	if service.Restart != "unless-stopped" {
		t.Errorf("%s: restart is %q", name, service.Restart)
	}
	check := service.Healthcheck
	if check == nil {
		t.Errorf("%s has no health check", name)
		return
	}
	if len(check.Test) < 2 || check.Test[0] != "CMD" || check.Retries < 1 {
		t.Errorf("%s: health check %q with %d retries", name, check.Test, check.Retries)
	}
	for field, text := range map[string]string{"interval": check.Interval, "timeout": check.Timeout, "start_period": check.StartPeriod} {
		if d, err := time.ParseDuration(text); err != nil || d <= 0 {
			t.Errorf("%s: %s of the health check is %q", name, field, text)
		}
	}
}

func TestComposeDependencies(t *testing.T) {
	t.Parallel()
	file := readCompose(t)
	var reach func(name string, path []string)
	reach = func(name string, path []string) {
		if slices.Contains(path, name) {
			t.Fatalf("services wait for each other: %s", strings.Join(append(path, name), " -> "))
		}
		for dependency, how := range file.Services[name].DependsOn {
			other, ok := file.Services[dependency]
			switch {
			case !ok:
				t.Fatalf("%s depends on %s, which is none of the services", name, dependency)
			case how.Condition == conditionHealthy && other.Healthcheck == nil:
				t.Errorf("%s waits for %s to be healthy, which has no health check", name, dependency)
			case how.Condition != conditionHealthy && how.Condition != conditionCompleted:
				t.Errorf("%s depends on %s with the condition %q", name, dependency, how.Condition)
			}
			reach(dependency, append(path, name))
		}
	}
	for name := range file.Services {
		reach(name, nil)
	}
	for service, needs := range map[string][]string{
		"worker": {"setup", "warehouse"}, "setup": {"temporal-namespace"}, "temporal-namespace": {"temporal"},
		"temporal": {"temporal-schema"}, "temporal-schema": {"temporal-db"}, "temporal-ui": {"temporal"},
	} {
		for _, need := range needs {
			if _, ok := file.service(t, service).DependsOn[need]; !ok {
				t.Errorf("%s does not wait for %s", service, need)
			}
		}
	}
}

func TestComposeVolumes(t *testing.T) {
	t.Parallel()
	file := readCompose(t)
	used := map[string]bool{}
	for name, service := range file.Services {
		for _, volume := range service.Volumes {
			source, rest, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(source, "./") {
				used[source] = true
				if _, ok := file.Volumes[source]; !ok {
					t.Errorf("%s: the volume %s is not declared", name, source)
				}
				continue
			}
			if _, err := os.Stat(filepath.Join("..", source)); err != nil {
				t.Errorf("%s mounts %s: %v", name, source, err)
			}
			if !strings.HasSuffix(rest, ":ro") {
				t.Errorf("%s may write to %s, a part of the repository", name, source)
			}
		}
	}
	for volume := range file.Volumes {
		if !used[volume] {
			t.Errorf("the volume %s is declared and not used", volume)
		}
	}
	for _, database := range []string{"warehouse", "temporal-db"} {
		if !slices.ContainsFunc(file.service(t, database).Volumes, func(v string) bool { return strings.HasSuffix(v, ":/var/lib/postgresql/data") }) {
			t.Errorf("%s keeps nothing over a restart", database)
		}
	}
}

var secretName = regexp.MustCompile(`PASSWORD|PWD|TOKEN|SECRET|KEY`)

func TestComposeVariablesAreInTheExample(t *testing.T) {
	t.Parallel()
	example := exampleVariables(t)
	used := map[string]bool{}
	for _, match := range composeReference.FindAllStringSubmatch(string(readRepository(t, "docker-compose.yml")), -1) {
		name, rest := match[1], match[2]
		used[name] = true
		value, known := example[name]
		switch {
		case !known:
			t.Errorf("docker-compose.yml uses %s, which docker/.env.example does not have", name)
		case value == "" && !strings.HasPrefix(rest, ":?"):
			t.Errorf("%s has to be filled in: write ${%s:?...}, so that an empty one is refused", name, name)
		case value != "" && rest != ":-"+value:
			t.Errorf("%s is %q in the example and %q in docker-compose.yml", name, value, rest)
		}
	}
	for name, value := range example {
		if !used[name] {
			t.Errorf("docker/.env.example has %s, which nothing uses", name)
		}
		if secretName.MatchString(name) && value != "" {
			t.Errorf("docker/.env.example writes the secret %s down", name)
		}
	}
}

func TestComposeHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	for service, settings := range readCompose(t).Services {
		for name, value := range settings.Environment {
			if secretName.MatchString(name) && !strings.HasPrefix(value, "${") {
				t.Errorf("%s: %s is written down", service, name)
			}
			if u, err := url.Parse(value); err == nil {
				if _, has := u.User.Password(); has {
					t.Errorf("%s: %s holds a password", service, name)
				}
			}
		}
	}
	ignored := strings.Split(string(readRepository(t, ".dockerignore")), "\n")
	for _, pattern := range []string{".git", "bin", "**/.env", "**/*.db"} {
		if !slices.Contains(ignored, pattern) {
			t.Errorf(".dockerignore does not leave out %s", pattern)
		}
	}
}

// variablesRead returns the variables of the environment that the Go files of a folder name.
func variablesRead(t *testing.T, folder string) []string {
	t.Helper()
	name := regexp.MustCompile(`\b(TEMPORAL|TRANCHE|SHOP)_[A-Z0-9_]*[A-Z0-9]\b`)
	found := map[string]bool{}
	for _, literal := range stringLiterals(t, folder) {
		for _, match := range name.FindAllString(literal, -1) {
			found[match] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// stringLiterals returns those of the Go files of a folder, tests left out.
func stringLiterals(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", folder, err)
	}
	var literals []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					literals = append(literals, text)
				}
			}
			return true
		})
	}
	return literals
}

// notInContainers are the variables that a program reads and that have no place in docker-compose.yml.
var notInContainers = map[string]string{
	"TEMPORAL_API_KEY":     "the server of the file asks for none, and a key switches TLS on",
	"TEMPORAL_CODEC_AUTH":  "the file has no codec server",
	"TEMPORAL_CONFIG_FILE": "the address and the namespace say it all",
	"TEMPORAL_PROFILE":     "there is no configuration file",
	"TRANCHE_READY_FILE":   "readiness is asked for over HTTP",
}

func TestComposeSetsWhatTheProgramsRead(t *testing.T) {
	t.Parallel()
	file := readCompose(t)
	seen := map[string]bool{}
	for service, folders := range map[string][]string{
		"worker": {"worker", "dial"}, "setup": {"starter", "dial"}, "starter": {"starter", "dial"},
		"shop": {"pipelines/orders/shop"},
	} {
		environment := file.service(t, service).Environment
		for _, folder := range folders {
			for _, name := range variablesRead(t, folder) {
				seen[name] = true
				_, set := environment[name]
				reason, left := notInContainers[name]
				switch {
				case !set && !left:
					t.Errorf("%s reads %s, which docker-compose.yml does not set for it", service, name)
				case set && left:
					t.Errorf("%s is set for %s, but %s", name, service, reason)
				}
			}
		}
		for name := range environment {
			if strings.HasPrefix(name, "TRANCHE_") && !seen[name] {
				t.Errorf("docker-compose.yml sets %s for %s, which it does not read", name, service)
			}
		}
	}
	for _, name := range []string{"TEMPORAL_ADDRESS", "TRANCHE_CONNECTIONS", "TRANCHE_LISTEN", "SHOP_TOKEN"} {
		if !seen[name] {
			t.Errorf("the programs were not searched well: they read %s", name)
		}
	}
	for name := range notInContainers {
		if !seen[name] {
			t.Errorf("no program reads %s any more", name)
		}
	}
}

// The commands in docker-compose.yml are those of our programs, with flags that they have.
func TestComposeCommands(t *testing.T) {
	t.Parallel()
	file := readCompose(t)
	for service, settings := range file.Services {
		if settings.Build == nil {
			continue
		}
		folder := programFolders[settings.Build.Target]
		known := strings.Join(stringLiterals(t, folder), "\n")
		for _, argument := range settings.Command {
			word := strings.TrimLeft(argument, "-")
			if argument == "--help" || net.ParseIP(hostOf(argument)) != nil {
				continue
			}
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(word) + `$`).MatchString(known) {
				t.Errorf("%s: %s knows no %q", service, folder, argument)
			}
		}
	}
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}

// published returns the container ports that a service publishes.
func (s composeService) published(t *testing.T, variables map[string]string) []string {
	t.Helper()
	var ports []string
	for _, mapping := range s.Ports {
		parts := strings.Split(expand(mapping, variables), ":")
		if len(parts) != 3 || parts[0] != "127.0.0.1" {
			t.Errorf("%q is not published to the host alone", mapping)
		}
		ports = append(ports, parts[len(parts)-1])
	}
	return ports
}

// endpoint is where one part of docker-compose.yml says that a service listens.
type endpoint struct{ service, port, said string }

func TestComposePortsAgree(t *testing.T) {
	t.Parallel()
	file, variables := readCompose(t), filledVariables(t)
	worker, shop := file.service(t, "worker"), file.service(t, "shop")
	listens := map[string]string{
		"warehouse":   "5432", // of the image
		"temporal-db": "5432",
		"temporal":    "7233", // of Temporal's configuration template, when FRONTEND_GRPC_PORT is not set
		"temporal-ui": file.service(t, "temporal-ui").Environment["TEMPORAL_UI_PORT"],
		"worker":      portOf(t, worker.Environment["TRANCHE_LISTEN"]),
		"shop":        portOf(t, flagValue(t, shop.Command, "--listen")),
	}
	if address := defaultListen(t); portOf(t, address) != listens["worker"] {
		t.Errorf("the worker listens on %s by itself, and on port %s here", address, listens["worker"])
	}
	for _, each := range endpoints(t, file, variables) {
		if port, ok := listens[each.service]; !ok || each.port != port {
			t.Errorf("%s: port %q of %q, which listens on %q", each.said, each.port, each.service, port)
		}
	}
	for name := range listens {
		check := strings.Join(file.service(t, name).Healthcheck.Test, " ")
		if !regexp.MustCompile(`\b` + listens[name] + `\b`).MatchString(check) {
			t.Errorf("the health check of %s asks another port than %s: %s", name, listens[name], check)
		}
	}
	for name, target := range map[string]string{"worker": "worker", "shop": "shop"} {
		if exposed := readDockerfile(t).stages[target].exposed; exposed != listens[name] {
			t.Errorf("the Dockerfile exposes %q for %s, which listens on %s", exposed, name, listens[name])
		}
	}
	for address, want := range map[string]string{worker.Environment["TRANCHE_LISTEN"]: "0.0.0.0", flagValue(t, shop.Command, "--listen"): "0.0.0.0"} {
		if hostOf(address) != want {
			t.Errorf("a container that listens on %s is reached by nobody", address)
		}
	}
}

// endpoints collects every place that names a service's port.
func endpoints(t *testing.T, file composeFile, variables map[string]string) []endpoint {
	t.Helper()
	var all []endpoint
	for name, service := range file.Services {
		for _, port := range service.published(t, variables) {
			all = append(all, endpoint{name, port, "ports of " + name})
		}
		environment := service.Environment
		if address, ok := environment["TEMPORAL_ADDRESS"]; ok {
			host, port, _ := net.SplitHostPort(address)
			all = append(all, endpoint{host, port, "TEMPORAL_ADDRESS of " + name})
		}
		for _, variable := range []string{"WAREHOUSE_URL", "SHOP_URL"} {
			if u, err := url.Parse(environment[variable]); err == nil && u.Host != "" {
				all = append(all, endpoint{u.Hostname(), u.Port(), variable + " of " + name})
			}
		}
		for host, port := range map[string]string{"SQL_HOST": "SQL_PORT", "POSTGRES_SEEDS": "DB_PORT"} {
			if environment[host] != "" {
				all = append(all, endpoint{environment[host], environment[port], host + " of " + name})
			}
		}
	}
	return all
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func flagValue(t *testing.T, command []string, flag string) string {
	t.Helper()
	at := slices.Index(command, flag)
	if at < 0 || at+1 == len(command) {
		t.Fatalf("the command %q has no %s", command, flag)
	}
	return command[at+1]
}

// defaultListen is the address of the worker's own default.
func defaultListen(t *testing.T) string {
	t.Helper()
	for _, literal := range stringLiterals(t, "worker") {
		if strings.HasPrefix(literal, "127.0.0.1:") {
			return literal
		}
	}
	t.Fatal("the worker has no default address any more")
	return ""
}

func TestComposeDatabasesAgree(t *testing.T) {
	t.Parallel()
	file := readCompose(t)
	warehouse := file.service(t, "warehouse").Environment
	u, err := url.Parse(file.service(t, "worker").Environment["WAREHOUSE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	if u.Hostname() != "warehouse" || u.User.Username() != warehouse["POSTGRES_USER"] || u.Path != "/"+warehouse["POSTGRES_DB"] {
		t.Errorf("the worker uses %s, the server has user %s and database %s", u, warehouse["POSTGRES_USER"], warehouse["POSTGRES_DB"])
	}
	password := file.service(t, "temporal-db").Environment["POSTGRES_PASSWORD"]
	schema, server := file.service(t, "temporal-schema").Environment, file.service(t, "temporal").Environment
	if schema["SQL_PASSWORD"] != password || server["POSTGRES_PWD"] != password {
		t.Error("Temporal's server, schema and database have different passwords")
	}
	if schema["SQL_USER"] != server["POSTGRES_USER"] || server["POSTGRES_USER"] != file.service(t, "temporal-db").Environment["POSTGRES_USER"] {
		t.Error("Temporal's server, schema and database have different users")
	}
	if file.service(t, "temporal").Image[len("temporalio/server"):] != file.service(t, "temporal-schema").Image[len("temporalio/admin-tools"):] {
		t.Error("the schema is made by another version than the server's")
	}
	var dynamic map[string][]struct {
		Value       any            `yaml:"value"`
		Constraints map[string]any `yaml:"constraints"`
	}
	strictYAML(t, "docker/temporal-dynamicconfig.yaml", &dynamic)
	if mounted := server["DYNAMIC_CONFIG_FILE_PATH"]; !slices.Contains(file.service(t, "temporal").Volumes, "./docker/temporal-dynamicconfig.yaml:"+mounted+":ro") {
		t.Errorf("nothing is mounted at %s", mounted)
	}
}

func TestComposeWorkerHasTimeToStop(t *testing.T) {
	t.Parallel()
	worker := readCompose(t).service(t, "worker")
	stop, err := time.ParseDuration(worker.Environment["TRANCHE_STOP_TIMEOUT"])
	if err != nil {
		t.Fatal(err)
	}
	grace, err := time.ParseDuration(worker.StopGracePeriod)
	if err != nil {
		t.Fatal(err)
	}
	if grace < stop+10*time.Second {
		t.Errorf("the worker is killed after %s, and lets its steps go on for %s", grace, stop)
	}
}

func TestComposeScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("../docker/*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	mounted := string(readRepository(t, "docker-compose.yml"))
	for _, script := range scripts {
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
		if base := filepath.Base(script); !strings.Contains(mounted, "./docker/"+base+":/scripts/"+base+":ro") || !strings.Contains(mounted, `"/scripts/`+base+`"`) {
			t.Errorf("docker-compose.yml does not mount and run %s", script)
		}
	}
}

// containerLookup is the environment of the worker's container.
func containerLookup(t *testing.T) func(string) (string, bool) {
	t.Helper()
	variables := filledVariables(t)
	environment := readCompose(t).service(t, "worker").Environment
	return func(name string) (string, bool) {
		value, ok := environment[name]
		return expand(value, variables), ok
	}
}

// Every connection that an example names exists, of the right kind, on a laptop and in Docker.
func TestExamplesFindTheirConnections(t *testing.T) {
	t.Parallel()
	laptop := func(name string) (string, bool) {
		value, ok := map[string]string{"SHOP_URL": "http://127.0.0.1:8089", "SHOP_TOKEN": "a-token-of-a-laptop"}[name]
		return value, ok
	}
	for file, env := range map[string]func(string) (string, bool){
		"pipelines/connections.yaml": laptop, "docker/connections.yaml": containerLookup(t),
	} {
		set, err := connection.Parse(filepath.Join("..", file), readRepository(t, file), env)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for _, example := range examples(t) {
			checkConnections(t, file, set, example)
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}
}

func examples(t *testing.T) []*pipeline.Pipeline {
	t.Helper()
	files, err := filepath.Glob("../pipelines/*/pipeline.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("there are three examples at least, got %v, %v", files, err)
	}
	var all []*pipeline.Pipeline
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, problems := pipeline.Parse(pipeline.Source{File: file, Data: data, ReadFile: os.ReadFile})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		all = append(all, parsed)
	}
	return all
}

func checkConnections(t *testing.T, file string, set *connection.Set, p *pipeline.Pipeline) {
	t.Helper()
	problem := func(err error) {
		if err != nil {
			t.Errorf("%s: %s: %v", file, p.Name, err)
		}
	}
	_, err := set.Database(p.Warehouse)
	problem(err)
	for _, step := range p.Steps {
		switch {
		case step.HTTP != nil:
			_, err = set.HTTP(step.HTTP.Connection)
			problem(err)
		case step.File != nil:
			_, err = set.Files(step.File.Connection)
			problem(err)
		}
	}
}
