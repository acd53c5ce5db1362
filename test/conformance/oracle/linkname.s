// A function without a body, as getPhase is in life_test.go, needs an assembler file in its package.
