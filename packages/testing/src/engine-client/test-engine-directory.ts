import assert from 'node:assert/strict'
import type { EngineDirectory } from '@cllm/core'
import { endless, failureOf, greedyRequest, readAll, readFirstToken } from './conformance-engine.js'
import { until } from '../time/simulated-time.js'
import { check, type TestContext } from '../test-context.js'

/** A directory under test. */
export interface TestedDirectory {
  /** Two models or more, none of them in memory if they come and go. */
  readonly directory: EngineDirectory
  /** Ends what is left of it. */
  readonly dispose?: () => void | Promise<void>
}

/** Options of {@link testEngineDirectory}: what the directory claims. */
export interface TestEngineDirectoryOptions {
  /** Whether its models come into memory and leave it; default true. Else they are always there. */
  readonly unloads?: boolean
  /** Turns of the event loop that a model has to leave memory; default 500,000. */
  readonly patience?: number
}

const unknown = 'no such model'

/**
 * The conformance suite of engine directories: names, and how models come into memory, are held there
 * and leave it. Its engines are {@link createConformanceEngine}'s.
 *
 * @param name what the directory is called in the report
 * @param make a new directory; the suite calls it once
 */
export async function testEngineDirectory(
  t: TestContext,
  name: string,
  make: () => TestedDirectory | Promise<TestedDirectory>,
  { unloads = true, patience }: TestEngineDirectoryOptions = {},
): Promise<void> {
  await t.test(`engine directory ${name}`, async (t) => {
    const { directory, dispose } = await make()
    try {
      await checkNames(t, directory)
      if (unloads) await checkMemory(t, directory, patience)
      else await checkPresence(t, directory)
    } finally {
      await dispose?.()
    }
  })
}

async function checkNames(t: TestContext, directory: EngineDirectory): Promise<void> {
  await check(t, 'names its models, the default one first', () => {
    const names = directory.list()
    assert(names.length >= 2, `the suite needs two models, instead got ${names.length}`)
    assert.equal(new Set(names).size, names.length, 'no name comes twice')
    assert.equal(directory.nameOf(), names[0])
    for (const name of names) {
      assert.equal(directory.nameOf(name), name)
      assert.equal(directory.status(name).name, name)
    }
    assert.equal(directory.status().name, names[0])
  })

  await check(t, 'refuses names that it does not have', async () => {
    assert.throws(() => directory.nameOf(unknown), { code: 'model_not_found' })
    assert.throws(() => directory.open(unknown), { code: 'model_not_found' })
    assert.throws(() => directory.status(unknown), { code: 'model_not_found' })
    await failureOf(directory.unload(unknown), 'model_not_found')
  })
}

async function checkPresence(t: TestContext, directory: EngineDirectory): Promise<void> {
  await check(t, 'its models are always there', async () => {
    for (const name of directory.list()) {
      assert.equal(directory.status(name).state, 'loaded')
      await directory.open(name, { peek: true }).info()
      await directory.unload(name)
      const { tokens } = await readAll(directory.open(name).submit(greedyRequest('x', 3)))
      assert.equal(tokens.length, 3)
      assert.equal(directory.status(name).state, 'loaded')
    }
  })
}

async function checkMemory(
  t: TestContext,
  directory: EngineDirectory,
  patience: number | undefined,
): Promise<void> {
  const [first = '', second = ''] = directory.list()
  const stateIs = async (name: string, state: string) =>
    await until(() => directory.status(name).state === state, patience, `${name} is ${state}`)

  await check(t, 'a peek finds no model that is not in memory, and loads none', () => {
    assert.throws(() => directory.open(first, { peek: true }), { code: 'engine_unavailable' })
    assert.equal(directory.status(first).state, 'unloaded')
  })

  await check(t, 'the first use loads a model, and no other', async () => {
    const stream = directory.open().submit(greedyRequest('x', endless))
    await readFirstToken(stream)
    const { state, users, info } = directory.status()
    assert.deepEqual([state, users], ['loaded', 1])
    assert.equal(info?.limits.slots, 2, 'what it serves is known')
    await stream.return?.()
    assert.equal(directory.status().users, 0, 'users once the stream was left')
    assert.equal(directory.status(second).state, 'unloaded')
    await directory.open(first, { peek: true }).statistics()
  })

  await check(t, 'a model is unloaded when unused, and loaded again', async () => {
    const stream = directory.open(first).submit(greedyRequest('x', 300))
    await readFirstToken(stream)
    const unloading = directory.unload(first)
    assert.equal(directory.status(first).state, 'loaded', 'a model in use stays')
    assert.equal((await readAll(stream)).error, undefined)
    await unloading
    assert.equal(directory.status(first).state, 'unloaded')
    await directory.open(first).info()
    assert.equal(directory.status(first).state, 'loaded')
  })

  await check(t, 'a model stays until the signal of its work fires', async () => {
    const work = new AbortController()
    const client = directory.open(second, { until: work.signal, keepAliveMs: 0 })
    await client.tokenize('a')
    const { tokens } = await readAll(client.submit(greedyRequest('x', 3)))
    assert.equal(tokens.length, 3)
    assert.equal(directory.status(second).state, 'loaded', 'it stays between two calls')
    work.abort()
    await failureOf(client.tokenize('late'), 'cancelled')
    assert.equal((await readAll(client.submit(greedyRequest('x', 3)))).error?.code, 'cancelled')
    await stateIs(second, 'unloaded')
  })

  await check(t, 'with a keep-alive of 0 a model leaves after its use', async () => {
    const client = directory.open(second, { keepAliveMs: 0 })
    await readAll(client.submit(greedyRequest('x', 3)))
    await stateIs(second, 'unloaded')
    assert.equal(directory.status(first).state, 'loaded', 'the other one stays')
  })
}
