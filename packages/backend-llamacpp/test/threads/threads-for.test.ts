import { threadsFor } from '@cllm/backend-llamacpp'
import t from 'tap'
import { openTiny, recordingLogger } from '../open-tiny.js'

t.test('threads of a forward pass', async (t) => {
  const alone = (mathCores: number, cores: number) =>
    threadsFor(undefined, mathCores, { cores, engines: 1 })
  t.same(
    [1, 2, 4, 8, 16].map((cores) => alone(cores, cores)),
    [1, 1, 3, 7, 15],
    'a core is left for others',
  )
  t.same(
    [1, 2, 4, 8].map((cores) => alone(cores, 2 * cores)),
    [1, 2, 4, 8],
    'with two logical ones to a core there is room beside',
  )
  t.equal(alone(32, 2), 1, 'a container of two cores on a large machine')
  t.equal(alone(6, 16), 6, 'efficiency cores do not help')
  const shared = (engines: number) => threadsFor(undefined, 8, { cores: 8, engines })
  t.same([1, 2, 3, 7, 8, 100].map(shared), [7, 3, 2, 1, 1, 1], 'engines at once share them')
  t.equal(threadsFor(4, 4, { cores: 4, engines: 3 }), 4, 'what is set is kept')
  t.equal(threadsFor(1, 8, { cores: 8, engines: 1 }), 1)
  t.equal(threadsFor(64, 8, { cores: 16, engines: 1 }), 16, 'up to the cores')
})

t.test('more threads than cores are not taken as they are, with one warning', async (t) => {
  const logger = recordingLogger()
  const backend = await openTiny(t, { threads: 512 }, logger)
  const threads = Number(backend.model.details?.['threads'])
  t.ok(threads >= 1 && threads < 512)
  const warnings = logger.lines.filter(({ level }) => level === 'warn')
  t.match(warnings, [{ message: new RegExp(`threads 512 is more than the ${threads} cores`) }])
  t.equal(warnings.length, 1)
})
