"""The house rules as tests: each rule is a pure function over source text, tried on the tree and on a bad example."""
