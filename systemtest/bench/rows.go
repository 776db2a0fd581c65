package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// day is the interval that all rows belong to.
var day = interval.Interval{
	Start: time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC),
	End:   time.Date(2026, 1, 16, 0, 0, 0, 0, time.UTC),
}

// columns are the eight columns of the rows.
func columns() []pipeline.Column {
	return []pipeline.Column{
		{Name: "id", Type: "bigint"}, {Name: "ordered_at", Type: "timestamptz"}, {Name: "customer", Type: "text"},
		{Name: "quantity", Type: "integer"}, {Name: "price", Type: "numeric(12,2)"}, {Name: "weight", Type: "double precision"},
		{Name: "paid", Type: "boolean"}, {Name: "note", Type: "text"},
	}
}

// A boolean is 0 or 1 in CSV, where SQLite's shell knows no other.
const (
	csvHeader = "id,ordered_at,customer,quantity,price,weight,paid,note\n"
	csvRow    = "%[1]d,%[2]s,customer-%[3]d,%[4]d,%[5]d.%02[6]d,%[7]g,%[8]d,note %08[10]x of the row\n"
	jsonRow   = `{"id":%[1]d,"ordered_at":"%[2]s","customer":"customer-%[3]d","quantity":%[4]d,"price":%[5]d.%02[6]d,"weight":%[7]g,"paid":%[9]t,"note":"note %08[10]x of the row"}` + "\n"
)

// writeRows writes n rows, the same for every call, in this form.
func writeRows(w io.Writer, form string, n int) error {
	random := rand.New(rand.NewPCG(1, 2))
	buffered := bufio.NewWriterSize(w, 1<<20)
	for i := range n {
		at := day.Start.Add(time.Duration(random.Int64N(int64(24 * time.Hour)))).Format("2006-01-02T15:04:05.000000Z")
		cents, paid := random.IntN(10_000_000), random.IntN(2)
		if _, err := fmt.Fprintf(buffered, form, i+1, at, random.IntN(50_000), random.IntN(50)+1, cents/100, cents%100,
			float64(random.IntN(100_000))/1000, paid, paid == 1, random.Uint32()); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// writeFile writes n rows into a file, after a header.
func writeFile(path, header, form string, n int) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.WriteString(header); err != nil {
		return err
	}
	return writeRows(file, form, n)
}
