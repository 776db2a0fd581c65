//go:build unix

package server

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockDatabase keeps a second server off the database file: two would hand out the same tasks. The
// lock is on a file beside it, because SQLite's own locks belong to the process and are lost when
// any descriptor of the database is closed. It goes with the process, however that ends; the empty
// lock file stays.
func lockDatabase(path string) (*os.File, error) {
	name := path + "-lock"
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock database file %s: %w", path, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("database file %s is in use by another devserver; stop that one, or name another file", path)
	} else if err != nil {
		err = fmt.Errorf("lock %s: %w", name, err)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
