package pipeline

import (
	"fmt"
	"strings"
	"time"
)

// checkLayout accepts a Go reference layout that writes at least the year, the month and the day.
func checkLayout(layout string) error {
	if layout == "" {
		return fmt.Errorf("the layout is empty: write one such as 2006-01-02")
	}
	if strings.Contains(layout, "%") || strings.Contains(strings.ToUpper(layout), "YYYY") {
		return fmt.Errorf("layout %q is not written as Go's reference time: write 2006 for the year, 01 for the month, 02 for the day, 15:04:05 for the time", clip(layout))
	}
	return nil
}

// checkSourceLayout accepts a layout that tells one date from another, so that a time can be read.
func checkSourceLayout(layout string) error {
	if err := checkLayout(layout); err != nil {
		return err
	}
	sample := time.Date(sampleYear, time.November, 23, 17, 48, 59, 0, time.UTC)
	text := sample.Format(layout)
	back, err := time.Parse(layout, text)
	if err != nil || back.Year() != sample.Year() || back.YearDay() != sample.YearDay() {
		return fmt.Errorf("layout %q does not hold year, month and day: write it as Go's reference time, such as 2006-01-02 15:04:05, or one of iso, unix, unixms, unixus", clip(layout))
	}
	return nil
}
