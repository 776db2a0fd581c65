// Package pipeline is the language of pipeline files: its declaration, how it is read and checked,
// and what a run takes along of it.
//
// [Parse] reads a file strictly and reports everything that is wrong with it at once, each problem
// with file, line, column, path, a stable code and a sentence that says what would be right.
// [Pipeline.Effective] fills in every default; that form travels, as JSON, as the input of a run, and
// [Decode] reads it there. The types of this package, with their comments and tags, are the only
// declaration of the language: the reference in docs/ and schema.json are generated from them.
//
// The package is pure. It reads no clock, no environment and no file but those that its caller's
// ReadFile hands over, and gives equal results for equal input; so it may be called from workflow
// code. It knows connections by name only, and never their credentials.
package pipeline

//go:generate go run ./internal/generate
