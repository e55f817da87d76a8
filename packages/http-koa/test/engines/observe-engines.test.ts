import { systemClock } from '@cllm/core'
import { testEngineClient, testEngineDirectory } from '@cllm/core/testing'
import { observeEngines } from '@cllm/http-koa'
import t from 'tap'
import { wrappedPool } from '../conformance-engines.js'

let submitted = 0
let ended = 0
const observer = {
  onSubmit: () => {
    submitted++
    return { onEvent: () => {}, onEnd: () => void ended++ }
  },
}
const observed = () => wrappedPool((directory) => observeEngines(directory, observer, systemClock))

await testEngineClient(t, 'observed', observed)
await testEngineDirectory(t, 'observed', observed)
t.ok(submitted > 50, `${submitted} requests were observed`)
t.equal(ended, submitted, 'each of them to its end')
