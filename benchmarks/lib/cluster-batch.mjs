import { startCluster } from './cluster-processes.mjs'
import { pause } from './servers.mjs'

async function after(before, next) {
  await before
  await next()
}

/** A batch while a worker, a front, Redis, and then a worker and a front again are killed. */
export async function batch(model, count) {
  const cluster = await startCluster({ model, slots: 16, durable: true })
  const startFront = async () => await cluster.front('--cluster-batches')
  const workers = [await cluster.worker(), await cluster.worker()]
  const fronts = [await startFront(), await startFront()]
  const { redis } = cluster
  const kill = async (list, start) => {
    list.shift().signal('SIGKILL')
    list.push(await start())
  }
  const killFront = async () => await kill(fronts, startFront)
  const killWorker = async () => await kill(workers, async () => await cluster.worker())
  const killRedis = async () => {
    await redis.kill()
    await pause(1000)
    await redis.restart()
  }
  const kills = [killWorker, killFront, killRedis, killWorker, killFront]
  const at = kills.map((_, index) => Math.round(((index + 1) * count) / (kills.length + 1)))

  const [{ id: modelName }] = (await (await fetch(`${fronts[0].url}/v1/models`)).json()).data
  const endpoint = '/v1/completions'
  const body = (index) => ({
    model: modelName,
    prompt: `Story ${index}. Once upon a time`,
    max_tokens: 12,
    temperature: 0.9,
  })
  const lines = Array.from({ length: count }, (_, index) =>
    JSON.stringify({
      custom_id: `line-${index}`,
      method: 'POST',
      url: endpoint,
      body: body(index),
    }),
  )
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob([lines.join('\n')]), 'lines.jsonl')
  /** Whichever front is there, as a balancer would. */
  const ask = async (path, init) => {
    for (;;) {
      try {
        const response = await fetch(`${fronts.at(-1).url}${path}`, init)
        if (response.ok) return response
        if (response.status < 500) throw new Error(await response.text())
      } catch (error) {
        if (error.name !== 'TypeError') throw error
      }
      await pause(200)
    }
  }
  const file = await (await ask('/v1/files', { method: 'POST', body: form })).json()
  const created = await ask('/v1/batches', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input_file_id: file.id, endpoint, completion_window: '24h' }),
  })
  const { id } = await created.json()
  const began = performance.now()
  let killing = Promise.resolve()
  let ended
  while (ended === undefined) {
    await pause(250)
    const found = await (await ask(`/v1/batches/${id}`)).json()
    const { completed, failed } = found.request_counts
    if (completed + failed >= at[0]) {
      at.shift()
      const next = kills.shift()
      killing = after(killing, next)
    }
    if (/completed|failed|expired/.test(found.status)) ended = found
  }
  const seconds = Math.round((performance.now() - began) / 1000)
  await killing
  const text = await (await ask(`/v1/files/${ended.output_file_id}/content`)).text()
  const ids = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).custom_id)
  for (const one of [...workers, ...fronts]) one.kill()
  await redis.kill()
  const inOrder = ids.every((one, index) => one === `line-${index}`)
  return {
    passed: ended.status === 'completed' && ids.length === count && inOrder && kills.length === 0,
    lines: count,
    answers: ids.length,
    'of them once': new Set(ids).size,
    'in order': inOrder,
    kills: 5 - kills.length,
    seconds,
  }
}
