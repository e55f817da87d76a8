import { SimulatedClock, type SharedStateFiles, type StateFile } from '@cllm/core'
import t from 'tap'
import { KeptItems } from '../../../../src/protocols/openai/responses/kept-items.js'

t.test('what was removed before its answer is written is not kept', async (t) => {
  const written = new Map<string, Uint8Array>()
  let letWrite = () => {}
  const mayWrite = new Promise<void>((resolve) => (letWrite = resolve))
  const files: Pick<SharedStateFiles, 'list' | 'write' | 'find' | 'remove' | 'touch'> = {
    list: async () => [],
    async write(head, data) {
      if (head.scope.includes('slow')) await mayWrite
      written.set(head.scope, data)
      return { ...head, name: head.scope, bytes: data.length }
    },
    async find(head) {
      const data = written.get(head.scope)
      return data && { ...head, name: head.scope, bytes: data.length, data, usedAt: 0 }
    },
    async remove({ scope }: StateFile) {
      written.delete(scope)
    },
    async touch() {},
  }
  const items = new KeptItems(files as SharedStateFiles)
  const response = (id: string, status: string) => ({
    object: { id, object: 'response' as const, status, previous_response_id: null, output: [] },
    items: [],
  })
  const begun = response('one', 'in_progress')
  t.ok(await items.begin('own', begun, new AbortController(), new SimulatedClock()))
  const slow = items.put('own', response('slow', 'completed'))
  const removing = items.remove('own', 'one', 'response')
  const finishing = items.finish('own', response('one', 'completed'))
  letWrite()
  await Promise.all([slow, removing])
  t.equal(await finishing, false)
  await t.rejects(items.response('own', 'one'), { code: 'not_found' })
  t.same([...written.keys()], ['["own","slow"]'])
})
