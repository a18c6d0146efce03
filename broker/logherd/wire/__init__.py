"""The remoting protocol without I/O: frames, headers, codes, bodies, at any cut of the input.

Bytes in, requests out, and back. Knows no socket, clock, store or setting."""
