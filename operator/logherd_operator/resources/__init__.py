"""One pure builder per thing that a group needs: configuration documents, and the objects of a Kubernetes cluster.

Reads only the spec and what it is told; no files, no processes, no clock."""
