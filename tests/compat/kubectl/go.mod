module logherd.dev/tests/kubectl

go 1.24.0

require (
	k8s.io/client-go v0.34.0
	k8s.io/component-base v0.34.0
	k8s.io/kubectl v0.34.0
)
