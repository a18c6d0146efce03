module logherd.dev/e2e/pause

go 1.24
