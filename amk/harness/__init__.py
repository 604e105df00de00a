"""CHECK: proves a descriptor safe or says why not. Knows the IR and the instruction table, and no operator."""
