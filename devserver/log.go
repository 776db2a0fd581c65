package main

import (
	"io"
	"strings"

	temporallog "go.temporal.io/server/common/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// serverLog is Temporal's log with a level that can be changed while it runs.
type serverLog struct {
	logger temporallog.Logger
	level  zap.AtomicLevel
}

// newServerLog writes entries of level and above to out, as text or as JSON. What Temporal logs
// before it ends the process is written even at level "never".
func newServerLog(out io.Writer, level, format string) *serverLog {
	levels := map[string]zapcore.Level{
		"debug": zap.DebugLevel, "info": zap.InfoLevel, "warn": zap.WarnLevel, "error": zap.ErrorLevel, "never": zap.FatalLevel,
	}
	atomic := zap.NewAtomicLevelAt(levels[level])
	encoder := zapcore.NewJSONEncoder(temporallog.DefaultZapEncoderConfig)
	if format == "text" {
		encoder = zapcore.NewConsoleEncoder(temporallog.DefaultZapEncoderConfig)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(out)), atomic)
	return &serverLog{temporallog.NewZapLogger(zap.New(withoutNexusHint{core})), atomic}
}

// quiet drops everything but fatal entries from now on: the services of a server that stops in good
// order report each other's absence, as warnings and as errors. Levels chosen with --log-level to see
// more, or only errors, stay.
func (l *serverLog) quiet() {
	if l.level.Level() == zap.WarnLevel {
		l.level.SetLevel(zap.FatalLevel)
	}
}

// withoutNexusHint drops the warning that there is no HTTP API, which is so on purpose here and would
// be the only line that an undisturbed start prints.
type withoutNexusHint struct{ zapcore.Core }

func (c withoutNexusHint) With(fields []zapcore.Field) zapcore.Core {
	return withoutNexusHint{c.Core.With(fields)}
}

func (c withoutNexusHint) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if strings.HasPrefix(entry.Message, "HTTP API port has not been set.") {
		return checked
	}
	return c.Core.Check(entry, checked)
}
