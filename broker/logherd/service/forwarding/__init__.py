"""Requests on their way to the leader: what a broker that does not lead does with them, and the leader's side of it.

Pure: requests, answers and the clock come in, what is to be sent goes out (rules H9 to H12). No module here knows a
connection or a task, and none carries out a request itself; `app.forwarding` is the shell around them."""
