package interval

import "time"

// ParseInstant reads the dates and times of pipeline files and command line flags.
func ParseInstant(text string, loc *time.Location) (time.Time, error) {
	return time.ParseInLocation(time.DateOnly, text, loc)
}
