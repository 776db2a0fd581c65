package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Binaries are the programs that `make build` and `make devserver` put into bin.
type Binaries struct {
	// Folder that holds them.
	Folder string
}

// FindBinaries looks for the programs in the folder bin of the repository's root.
func FindBinaries(root string) (Binaries, error) {
	folder, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		return Binaries{}, err
	}
	for _, name := range []string{"devserver", "worker", "starter", "shop"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return Binaries{}, fmt.Errorf("%w: run `make build devserver` first", err)
		}
	}
	return Binaries{folder}, nil
}

// Path returns the path of a program.
func (b Binaries) Path(name string) string { return filepath.Join(b.Folder, name) }

// ChasmVariable is the variable of the environment that, set to 1, has servers make their Schedules with
// Temporal's new scheduler. The default of server v1.32.1 is the one that is built on workflows.
const ChasmVariable = "TRANCHE_TEST_CHASM"

// chasm switches the new scheduler on.
var chasm = []string{
	"--dynamic-config-value", "history.enableCHASMSchedulerCreation=true",
	"--dynamic-config-value", "history.chasmSchedulerCreationRolloutPercent=100",
}

// Server starts a Temporal server on free ports, with its state in memory unless args name a file.
func (b Binaries) Server(ctx context.Context, dir string, args ...string) (*Process, error) {
	args = append([]string{"server", "start-dev"}, args...)
	if os.Getenv(ChasmVariable) == "1" {
		args = append(args, chasm...)
	}
	return Start(ctx, Spec{Name: "devserver", Program: b.Path("devserver"), Dir: dir, Environment: Environment(), Args: args})
}

// Worker starts a worker on a free port for its metrics.
func (b Binaries) Worker(ctx context.Context, dir string, environment []string, args ...string) (*Process, error) {
	return Start(ctx, Spec{
		Name: "worker", Program: b.Path("worker"), Dir: dir, Environment: environment,
		Args: append([]string{"--listen", "127.0.0.1:0"}, args...),
	})
}

// Shop starts the shop API on a free port.
func (b Binaries) Shop(ctx context.Context, dir string, environment []string, args ...string) (*Process, error) {
	return Start(ctx, Spec{
		Name: "shop", Program: b.Path("shop"), Dir: dir, Environment: environment,
		Args: append([]string{"--listen", "127.0.0.1:0"}, args...),
	})
}
