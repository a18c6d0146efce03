package main

import (
	"encoding/json"
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A register per key: read, write, compare-and-set. The empty value is a register that was never written.
type registerInput struct {
	F     string
	Value string `json:"value"`
	From  string `json:"from"`
	To    string `json:"to"`
}

type registerOutput struct {
	Value   *string `json:"value"`
	Swapped *bool   `json:"swapped"`
}

func parseRegister(op operation) (any, any, error) {
	input := registerInput{F: op.F}
	if err := json.Unmarshal(op.In, &input); err != nil {
		return nil, nil, fmt.Errorf("arguments of %s: %w", op.F, err)
	}
	if op.Outcome == "unknown" {
		if op.F == "read" {
			return nil, nil, nil // it changed nothing and said nothing
		}
		return input, nil, nil
	}
	output := registerOutput{}
	if err := json.Unmarshal(op.Out, &output); err != nil {
		return nil, nil, fmt.Errorf("answer of %s: %w", op.F, err)
	}
	if (op.F == "read" && output.Value == nil) || (op.F == "cas" && output.Swapped == nil) {
		return nil, nil, fmt.Errorf("the answer of %s says nothing", op.F)
	}
	return input, output, nil
}

func stepRegister(state, input, output any) (bool, any) {
	value, in := state.(string), input.(registerInput)
	out, answered := output.(registerOutput)
	switch in.F {
	case "read":
		return *out.Value == value, value
	case "write":
		return true, in.Value
	case "cas":
		if answered && *out.Swapped != (value == in.From) {
			return false, value
		}
		if value == in.From {
			return true, in.To
		}
		return true, value
	}
	return false, value
}

func describeRegister(input, output any) string {
	in := input.(registerInput)
	out, answered := output.(registerOutput)
	switch {
	case in.F == "read":
		return fmt.Sprintf("read %q", *out.Value)
	case in.F == "write":
		return fmt.Sprintf("write %q", in.Value)
	case answered:
		return fmt.Sprintf("cas %q to %q: %t", in.From, in.To, *out.Swapped)
	}
	return fmt.Sprintf("cas %q to %q: not answered", in.From, in.To)
}

func registerModel() model {
	return model{parseRegister, porcupine.Model{
		Init:              func() any { return "" },
		Step:              stepRegister,
		DescribeOperation: describeRegister,
	}}
}
