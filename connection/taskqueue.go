package connection

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/trancheflow/tranche/retry"
)

// TaskQueue is a Temporal task queue of a connection's own. The server hands out the steps on it at a
// steady rate, whatever the number of workers.
type TaskQueue struct {
	// Name of the queue. Several connections may share one.
	Name string
	// StepsPerSecond is how many attempts of steps start in a second, over all workers; above 0. It says
	// nothing about the requests that each of them sends.
	StepsPerSecond float64
}

// TaskQueues returns the task queues that connections have of their own, sorted by name.
func (s *Set) TaskQueues() []TaskQueue {
	var queues []TaskQueue
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		queues = append(queues, TaskQueue{name, s.queues[name]})
	}
	return queues
}

// OnTaskQueue checks that a step which came by this task queue may use the connection: one with a queue of its
// own takes steps from nowhere else, and nobody else's steps may use up that queue's rate. The error is
// permanent.
func (s *Set) OnTaskQueue(api *HTTP, queue string) error {
	switch _, own := s.queues[queue]; {
	case api.queue == queue, api.queue == "" && !own:
		return nil
	case api.queue == "":
		return retry.Permanentf(TypeWrongTaskQueue, "the task queue %s is that of other connections: take it out of the http step, or give it to connection %s in the workers' connections file", queue, api.name)
	default:
		return retry.Permanentf(TypeWrongTaskQueue, "connection %s has the task queue %s, whose rate Temporal keeps, and the step came by %s: write task_queue: %s in the http step", api.name, api.queue, queue, api.queue)
	}
}

func (d *decoder) taskQueue(node *yaml.Node, path string) TaskQueue {
	var q TaskQueue
	seen := d.mapping(node, path, fields{
		"name":             func(n *yaml.Node, p string) { q.Name = d.queueName(n, p) },
		"steps_per_second": d.number(&q.StepsPerSecond),
	})
	d.required(seen, node, path, "name", "shop-api")
	d.required(seen, node, path, "steps_per_second", "2")
	if q.Name == "" || q.StepsPerSecond == 0 {
		return TaskQueue{}
	}
	if other, is := d.queues[q.Name]; is && other != q.StepsPerSecond {
		d.problem(node, path, CodeConflict, "another connection has this task queue with another rate: a queue has one")
	}
	d.queues[q.Name] = q.StepsPerSecond
	return q
}

// maximumTaskQueue is Temporal's default limit for names.
const maximumTaskQueue = 1000

func (d *decoder) queueName(node *yaml.Node, path string) string {
	name, ok := d.text(node, path)
	if !ok {
		return ""
	}
	if name == "" || len(name) > maximumTaskQueue || name != strings.TrimSpace(name) || strings.ContainsAny(name, "\n\r\t") || strings.HasPrefix(name, "/_sys/") {
		d.problem(node, path, CodeBadValue, "the name of a Temporal task queue is wanted here, such as shop-api")
		return ""
	}
	return name
}
