import { readFileSync } from 'node:fs'
import type { Test } from 'tap'
import { auditAll, clipped, isDocked, layoutShift, type Visit } from './browser.js'
import { until } from '../until.js'

/** What the requests of the page's docs begin with. */
const docs = readFileSync(new URL('../../../../docs/web-page.md', import.meta.url), 'utf8')
const [, prefix = ''] = /"prompt": "(.*) '\$end'/.exec(docs) ?? []

/** Sends a request as another client does; resolves when its answer has ended. */
async function ask(url: string, prompt: string, tokens: number, tenant: string) {
  const response = await fetch(`${url}/generate`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-cllm-tenant': tenant },
    body: JSON.stringify({ prompt, max_tokens: tokens, ignore_eos: true }),
  })
  const [, cached] = /"cached_tokens":(\d+)/.exec(await response.text()) ?? []
  return { status: response.status, cached: Number(cached) }
}

/** Clients that ask one request after the other until they are told to end. */
function underLoad(url: string, clients: number) {
  const statuses = new Set<number>()
  const over = new AbortController()
  const client = async (_: unknown, index: number): Promise<void> => {
    for (let count = 0; !over.signal.aborted; count++) {
      const prompt = `Story ${index} of ${count}: ${'there was a dog '.repeat((count * 7) % 12)}`
      const { status } = await ask(url, prompt, 20 + ((count * 13) % 50), `team-${index % 3}`)
      statuses.add(status)
    }
  }
  const all = Promise.all(Array.from({ length: clients }, client))
  return {
    statuses,
    async end() {
      over.abort()
      await all
    },
  }
}

/**
 * What somebody does who has started a server for the first time: chats, sees what two requests share,
 * sets another policy while others use the server, and watches it.
 */
export async function newcomer(t: Test, { page, url, shoot }: Visit): Promise<void> {
  const status = 503 // as while the model loads
  await page.route('**/v1/models', async (route) => await route.fulfill({ status, body: '{}' }))
  await page.goto(url)
  t.equal(page.url(), `${url}/ui/`, 'a browser is sent to the page')
  await page.getByText('The model is loading.').waitFor()
  await page.unroute('**/v1/models')
  await page.getByText('stories15m answers.').waitFor()
  await page
    .getByRole('combobox', { name: 'Model', exact: true })
    .getByText('stories15m')
    .waitFor({ state: 'attached' })
  await isDocked(t, page)
  const focused = "document.activeElement.getAttribute('aria-label')"
  t.equal(await page.evaluate(focused), 'Message', 'one can write at once')
  await page.keyboard.type('Tell me a story about a dog.')
  await page.keyboard.press('Enter')
  await page.getByText(/TTFT .* tokens\/s · \d+ tokens · \d+ of \d+ cached/).waitFor()
  t.match(await page.locator('.assistant .markdown').innerText(), /\w+ \w+/)

  await page.getByRole('link', { name: 'Scheduler' }).click()
  await page.getByText('In force: adaptive+fcfs').waitFor()
  // So short a prefix is rather computed again where that seems cheaper than a copy: on a busy machine, what a step
  // takes is not known at once.
  await until(async () => {
    const shared = [' whale', ' ship'].map(
      async (end, index) => await ask(url, prefix + end, 30, `reader-${index}`),
    )
    const answers = await Promise.all(shared)
    t.match(answers, [{ status: 200 }, { status: 200 }])
    return answers.some(({ cached }) => cached > 40)
  })
  const ended = page.getByRole('region', { name: 'Requests that ended' })
  // Where one came so late that the other had ended, it has that one's slot.
  const origin = '(copied from another slot|in the slot already)'
  const row = ended
    .getByRole('row', { name: new RegExp(`reader-\\d done .* \\d\\d of \\d+, ${origin}`) })
    .first()
  await row.waitFor()
  const [, cached, all] = /(\d+) of (\d+), /.exec(await row.innerText()) ?? []
  t.ok(Number(cached) > 40 && Number(cached) < Number(all), `${cached} of ${all} tokens`)
  const once = { times: 1 }
  await page.route('**/requests/*', async (route) => await route.fulfill({ status: 503 }), once)
  await row.getByRole('link').click() // a look that fails is not the last one
  await page
    .getByText(new RegExp(`got slot \\d, with \\d+ of \\d+ prompt tokens .*, ${origin}`))
    .waitFor()
  await shoot('prefix')
  await page.getByRole('link', { name: 'Close' }).click()
  await page.route('**/requests/waits', async (route) => {
    const timings = { ttft_ms: 2000, cached_tokens: 0, prompt_tokens: 4, generated_tokens: 0 }
    const sentence = 'It waited 2.0 s: all slots were taken (2.0 s).'
    const waited = { type: 'waited', at_ms: 0, until_ms: 2000, sentence }
    const sentences = ['It differs from the previous call.', sentence]
    const data = { state: 'queued', tenant: 'a', timings, timeline: [waited], sentences }
    await route.fulfill({ json: { data } })
  })
  await page.evaluate("location.hash = 'scheduler/waits'")
  await page.getByText('queued, tenant a: 0 of 4 prompt tokens cached').waitFor()
  await page.getByText('It differs from the previous call.', { exact: true }).waitFor()
  await page.getByRole('listitem').getByText('It waited 2.0 s: all slots').waitFor()
  await page.getByRole('link', { name: 'Close' }).click()

  const load = underLoad(url, 7)
  t.teardown(async () => await load.end())
  await page.getByRole('heading', { name: /^Queue: [1-9]/ }).waitFor()
  await page.getByText('all slots were taken').first().waitFor()
  await page
    .getByRole('img', { name: /\d of \d slots busy, [1-9]\d* requests? in the queue/ })
    .waitFor()
  await page.getByRole('link', { name: 'Chat' }).click()
  await page.getByRole('button', { name: 'New chat' }).click() // a slot has no room for two stories
  await page.getByLabel('Message').fill('And one about a cat?')
  await page.getByLabel('Message').press('Enter')
  await page.getByText(/Number \d+ in the queue, first token in about \d/).waitFor()
  await page.getByRole('link', { name: 'Scheduler' }).click()
  await page.getByLabel('Batching').selectOption('chunked')
  await page.getByRole('combobox', { name: 'Order' }).selectOption('fair')
  await page.getByRole('button', { name: 'Set the policy' }).click()
  await page.getByRole('button', { name: /^Yes, use chunked\+fair/ }).click()
  await page.getByText('In force: chunked+fair').waitFor()
  await page.getByRole('button', { name: 'Back to adaptive+fcfs' }).waitFor()
  await page.getByRole('heading', { name: /^Queue: [1-9]/ }).waitFor()
  await shoot('scheduler')
  const answer = await fetch(`${url}/admin/scheduler`)
  t.match(await answer.json(), { data: { policy: 'chunked+fair' } })
  await page.getByRole('region', { name: 'Queue' }).getByRole('link').last().click()
  await page.getByText(/waited .*all slots were taken/).waitFor()
  await page.getByRole('rowheader', { name: 'team-2' }).waitFor()
  await load.end()
  t.same([...load.statuses], [200], 'nobody noticed')
  // On a machine that may be busy; the model may end it itself.
  await page.getByText(/ended with \d+ tokens? \((length|stop)\)/).waitFor({ timeout: 45_000 })
  await page.getByRole('link', { name: 'Close' }).click()
  const size = page.viewportSize()!
  for (const width of [1280, 390]) {
    await page.setViewportSize({ ...size, width })
    const slots = page.getByRole('region', { name: 'Slots and what they hold' })
    t.same(await clipped(slots), [], `the tokens of each slot, ${width} pixels wide`)
    const tiles = page.getByLabel('Now', { exact: true }).locator('.tile')
    const boxes = await Promise.all((await tiles.all()).map((tile) => tile.boundingBox()))
    t.ok(width > 400 || boxes.at(-1)?.x === boxes[0]?.x, 'no tile leaves a gap before it')
  }
  await page.setViewportSize(size)
  t.match(await page.getByLabel('Figures').innerText(), /TTFT\s+\d.*\nITL\s+\d/)
  await auditAll(t, page)
  await page.setViewportSize({ width: 390, height: 800 })
  for (const [name, last] of [
    ['scheduler', page.getByRole('combobox', { name: 'Order' })],
    ['models', page.getByRole('button', { name: 'Compute' })],
  ] as const) {
    await page.goto('about:blank')
    await page.goto(`${url}/ui/#${name}`)
    await last.waitFor()
    const moved = await layoutShift(page)
    t.ok(moved < 0.06, `${name} stays where it is: ${moved}`)
  }
  await page.setViewportSize(size)
}
