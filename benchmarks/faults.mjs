// Injects the faults of clients and machines into a running server and prints a score card.
// node benchmarks/faults.mjs --target URL [--help]
import { dispatch } from './lib/command.mjs'
import { injectFaults } from './faults/inject-faults.mjs'

await dispatch(injectFaults)
