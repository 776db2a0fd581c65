package activities

import (
	"errors"
	"testing"
	"time"

	"github.com/trancheflow/tranche/extract"
)

// TestWhyAPageBroke: the error with which the rows of a page break off is kept, so that it need not be dug out of what the
// stage says around it.
func TestWhyAPageBroke(t *testing.T) {
	t.Parallel()
	torn := errors.New("page 1, record 2: torn")
	var rows extract.Rows = func(yield func([][]byte, error) bool) {
		if yield([][]byte{nil}, nil) {
			yield(nil, torn)
		}
	}
	var broken error
	for _, err := range counted(rows, newProgress(time.Minute, time.Now), 0, &broken) {
		if err != nil && !errors.Is(err, torn) {
			t.Error(err)
		}
	}
	if broken != torn {
		t.Errorf("kept %v", broken)
	}
}
