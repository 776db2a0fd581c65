package pipeline

// checker looks at what the decoded document means.
type checker struct {
	*report
	p        *Pipeline
	readFile func(name string) ([]byte, error)
}

func (c *checker) check() {
}
