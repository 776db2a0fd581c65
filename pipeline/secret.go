package pipeline

import "go.yaml.in/yaml/v3"

func (r *report) findSecrets(node *yaml.Node, path string) {}
