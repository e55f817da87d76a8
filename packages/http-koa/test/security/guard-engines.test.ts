import { testEngineClient, testEngineDirectory } from '@cllm/core/testing'
import t from 'tap'
import { guardEngines } from '../../src/security/guard-engines.js'
import { wrappedPool } from '../conformance-engines.js'

await testEngineClient(t, 'guarded', () => wrappedPool(guardEngines))
await testEngineDirectory(t, 'guarded', () => wrappedPool(guardEngines))
