"""RocketMQ's controller protocol over `logherd.controller`: frames in, and out of them what to confirm, propose or say.

Every step is data; the shell carries it out against the quorum. Knows no Raft, no clock and no socket."""
