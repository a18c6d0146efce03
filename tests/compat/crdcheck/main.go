// Reads a CustomResourceDefinition and lines of {"name", "old"?, "new"} from standard input; answers each with what an
// API server would refuse of it. Exits with 1 if the definition itself would be refused.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	wholejson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

type document struct {
	Name     string
	Old, New map[string]any
}

type answer struct {
	Name    string   `json:"name"`
	Refused []string `json:"refused"`
	Pruned  []string `json:"pruned"`
}

// Whole numbers stay whole, as in the API server.
func (each *document) read(line []byte) error {
	var fields map[string]any
	if err := wholejson.Unmarshal(line, &fields); err != nil {
		return err
	}
	each.Name, _ = fields["name"].(string)
	each.Old, _ = fields["old"].(map[string]any)
	each.New, _ = fields["new"].(map[string]any)
	return nil
}

func main() {
	internal, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if faults := crdvalidation.ValidateCustomResourceDefinition(context.Background(), internal); len(faults) > 0 {
		for _, fault := range faults {
			fmt.Fprintln(os.Stderr, fault)
		}
		os.Exit(1)
	}
	schema := stored(internal)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<24)
	for lines.Scan() {
		var each document
		if err := each.read(lines.Bytes()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		json.NewEncoder(os.Stdout).Encode(judge(schema.OpenAPIV3Schema, each))
	}
}

func read(path string) (*apiextensions.CustomResourceDefinition, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var external v1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &external); err != nil {
		return nil, err
	}
	v1.SetDefaults_CustomResourceDefinition(&external)
	v1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
	scheme := runtime.NewScheme()
	install.Install(scheme)
	var internal apiextensions.CustomResourceDefinition
	err = scheme.Convert(&external, &internal, nil)
	for _, each := range internal.Spec.Versions {
		if each.Storage {
			internal.Status.StoredVersions = []string{each.Name}
		}
	}
	return &internal, err
}

// The schema of the version in which objects are stored, which may be the one of all versions.
func stored(definition *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceValidation {
	for _, each := range definition.Spec.Versions {
		if each.Storage && each.Schema != nil {
			return each.Schema
		}
	}
	return definition.Spec.Validation
}

func judge(schema *apiextensions.JSONSchemaProps, each document) answer {
	out := answer{Name: each.Name, Refused: []string{}, Pruned: []string{}}
	tree, err := structural.NewStructural(schema)
	if err != nil {
		return answer{Name: each.Name, Refused: []string{err.Error()}}
	}
	out.Pruned = append(out.Pruned, pruning.PruneWithOptions(each.New, tree, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.Default(each.New, tree)
	validator, _, err := validation.NewSchemaValidator(schema)
	if err != nil {
		return answer{Name: each.Name, Refused: []string{err.Error()}}
	}
	for _, fault := range validation.ValidateCustomResource(nil, each.New, validator) {
		out.Refused = append(out.Refused, fault.Error())
	}
	var old any
	if each.Old != nil {
		defaulting.Default(each.Old, tree)
		old = each.Old
	}
	rules := cel.NewValidator(tree, true, celconfig.PerCallLimit)
	faults, _ := rules.Validate(context.Background(), field.NewPath(""), tree, each.New, old, celconfig.RuntimeCELCostBudget)
	for _, fault := range faults {
		out.Refused = append(out.Refused, fault.Error())
	}
	return out
}
