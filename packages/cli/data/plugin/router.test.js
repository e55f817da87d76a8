import assert from 'node:assert/strict'
import { test } from 'node:test'
import { myPlugin } from './my-plugin.js'

void test('my-plugin: the worker that gives the first token earliest', () => {
  const worker = { open: 0, slots: 4, waitMs: 0, cachedTokens: 0 }
  const workers = [
    { ...worker, id: 'slow', firstTokenMs: 90 },
    { ...worker, id: 'quick', firstTokenMs: 30 },
  ]
  const router = myPlugin.create({})
  assert.deepEqual(router.place({ promptTokens: 10 }, workers, 0), { worker: 'quick' })
})
