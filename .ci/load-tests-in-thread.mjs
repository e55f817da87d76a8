// What `load-tests.mjs` is for the threads of a test's process.
import { register } from 'node:module'

register('./load-tests.mjs', import.meta.url, { data: {} })
