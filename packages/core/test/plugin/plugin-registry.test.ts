import { PluginRegistry, type SchedulerPolicy } from '@cllm/core'
import { FakeBackend } from '@cllm/core/testing'
import t from 'tap'
import { z } from 'zod'

const policy = (name: string): SchedulerPolicy => ({
  name,
  plan: () => ({ admit: [], preempt: [], reject: [], run: [] }),
})

t.test('policies by name', async (t) => {
  const registry = new PluginRegistry()
  t.throws(() => registry.createPolicy('fcfs'), {
    code: 'invalid_policy',
    message: 'policy: none is registered, instead got "fcfs"',
  })
  const seen: unknown[] = []
  registry.registerPolicy('window+fcfs', (options) => {
    seen.push(options)
    return policy('window+fcfs')
  })
  registry.registerPolicy('adaptive+fcfs', () => policy('adaptive+fcfs'))
  t.same(registry.policyNames(), ['adaptive+fcfs', 'window+fcfs'])
  t.equal(registry.createPolicy('window+fcfs', { quantum: 3 }).name, 'window+fcfs')
  registry.createPolicy('window+fcfs')
  t.same(seen, [{ quantum: 3 }, {}])

  const expected = 'policy: expected one of adaptive+fcfs, window+fcfs, instead got'
  const error = (name: string) => {
    try {
      registry.createPolicy(name)
    } catch (thrown) {
      return thrown as Error
    }
  }
  t.match(error('adaptiv+fcfs'), {
    code: 'invalid_policy',
    message: `${expected} "adaptiv+fcfs"; did you mean "adaptive+fcfs"?`,
    details: { field: 'policy', valid: ['adaptive+fcfs', 'window+fcfs'] },
  })
  t.equal(error('WINDOW+FCFS')?.message, `${expected} "WINDOW+FCFS"; did you mean "window+fcfs"?`)
  t.equal(error('lottery')?.message, `${expected} "lottery"`)
  t.equal(error('')?.message, `${expected} ""`)
  t.equal(error('__proto__')?.message, `${expected} "__proto__"`)

  t.throws(() => registry.registerPolicy('window+fcfs', () => policy('x')), {
    code: 'plugin_conflict',
    message: 'A policy named "window+fcfs" is registered already',
  })
  t.throws(() => registry.registerPolicy('', () => policy('x')), { code: 'plugin_invalid' })
  t.throws(() => registry.registerPolicy('x', policy('x') as never), { code: 'plugin_invalid' })
})

t.test('what a policy factory does wrong is said', async (t) => {
  const registry = new PluginRegistry()
  const schema = z.strictObject({ quantum: z.number() })
  registry.registerPolicy('checked', (options) =>
    policy(`checked ${schema.parse(options).quantum}`),
  )
  registry.registerPolicy('broken', () => {
    throw new TypeError('out of luck')
  })
  registry.registerPolicy('empty', () => ({}) as SchedulerPolicy)
  registry.registerPolicy('nothing', () => undefined as unknown as SchedulerPolicy)
  t.equal(registry.createPolicy('checked', { quantum: 2 }).name, 'checked 2')
  t.throws(() => registry.createPolicy('checked', { quantum: 'two' }), {
    code: 'invalid_policy',
    message: 'policy "checked": option "quantum": expected number, received string',
  })
  t.throws(() => registry.createPolicy('checked', { quantum: 2, quantm: 1 }), {
    message: 'policy "checked": Unrecognized key: "quantm"',
  })
  t.throws(() => registry.createPolicy('broken'), {
    code: 'invalid_policy',
    message: 'policy "broken": out of luck',
    cause: TypeError,
  })
  t.throws(() => registry.createPolicy('empty'), { code: 'plugin_invalid', message: /"empty"/ })
  t.throws(() => registry.createPolicy('nothing'), { code: 'plugin_invalid', message: /"nothing"/ })
})

t.test('backends and protocols by name', async (t) => {
  const registry = new PluginRegistry()
  registry.registerBackend('fake', async (options) => {
    const { id } = z.object({ id: z.string() }).parse(options)
    return new FakeBackend({ id })
  })
  t.equal((await registry.createBackend('fake', { id: 'mine' })).model.id, 'mine')
  await t.rejects(registry.createBackend('fake', {}), {
    code: 'invalid_configuration',
    message: 'backend "fake": option "id": expected string, received undefined',
  })
  await t.rejects(registry.createBackend('fakes'), {
    code: 'invalid_configuration',
    message: 'backend: expected one of fake, instead got "fakes"; did you mean "fake"?',
  })
  t.throws(() => registry.registerBackend('fake', () => new FakeBackend()), {
    code: 'plugin_conflict',
  })

  const protocol = { name: 'plain', mount() {} }
  registry.registerProtocol('plain', () => protocol)
  t.same(registry.createProtocols(), [protocol])
  t.throws(() => registry.registerProtocol('plain', () => protocol), { code: 'plugin_conflict' })
  registry.registerPolicy('plain', () => policy('plain'))
  t.same(registry.policyNames(), ['plain'], 'kinds do not get in each other’s way')
})
