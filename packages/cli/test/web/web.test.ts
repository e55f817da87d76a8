import { mkdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { protocolsPlugin } from '@cllm/http-koa'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { loadConfig } from '../../src/config/load-config.js'
import { createProtocols } from '../../src/create-protocols.js'
import { loadRegistry } from '../../src/plugins/load-registry.js'
import { serve } from '../serve-process.js'
import { auditPage, findBrowser, startBrowser, watchPage } from './browser.js'

const executable = findBrowser()
const missing = executable === undefined && 'there is no Chromium on PATH'
/** The pictures of the docs are made, and nothing else, where the environment asks for them. */
const isForPictures = process.env['SCREENSHOTS'] !== undefined
const skip = isForPictures ? 'only pictures are asked for' : missing
const pictures = new URL('../../../../docs/images/', import.meta.url)

/** Elements that a phone cannot show, unless they can be scrolled. */
const tooWide = `[...document.body.querySelectorAll('*')]
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.scroll, pre, .sr-only'))
  .map((each) => each.outerHTML.slice(0, 200))
  .concat(document.documentElement.scrollWidth > innerWidth ? ['the page'] : [])`

/** What is wrong with a page for who cannot see it, in both themes and on a phone. */
async function auditAll(t: Test, page: Page): Promise<void> {
  t.same(await auditPage(page), [], 'light')
  await page.getByRole('button', { name: 'Dark' }).click()
  t.same(await auditPage(page), [], 'dark')
  await page.getByRole('button', { name: 'Light' }).click()
  const size = page.viewportSize()!
  await page.setViewportSize({ width: 360, height: 740 })
  t.same(await page.evaluate<string[]>(tooWide), [], 'it fits a phone')
  await page.setViewportSize(size)
}

/** Goes to a link, button or field as somebody without a mouse does. */
async function tabTo(page: Page, name: string): Promise<void> {
  const focused = '((each) => each?.ariaLabel ?? each?.textContent)(document.activeElement)'
  for (let count = 0; count < 30; count++) {
    await page.keyboard.press('Tab')
    if ((await page.evaluate<string>(focused)) === name) return
  }
  throw new Error(`The tab key does not lead to ${name}`)
}

t.test('the page, used as a person would', { skip }, async (t) => {
  const { url } = await serve(t, '--model', 'stories15m', '--slots', '2')
  const browser = await startBrowser(t, executable!)
  const context = await browser.newContext({ colorScheme: 'light', acceptDownloads: true })
  const page = await context.newPage()
  const wrong = watchPage(page, url)
  page.setDefaultTimeout(20_000)
  const step = async (name: string, run: (t: Test) => Promise<void>): Promise<void> => {
    await t.test(name, async (t) => {
      await run(t)
      t.same(wrong.splice(0), [], 'it asked nobody else, and nothing failed')
    })
  }

  await step(
    'chat: settings, an answer with its figures, edit, regenerate, branches',
    async (t) => {
      await page.goto(url)
      t.equal(page.url(), `${url}/ui/`, 'a browser is sent to the page')
      await page.getByText('Settings').click()
      await page.getByLabel('Most tokens').fill('30')
      await page.getByLabel('Temperature').fill('0')
      await page.getByLabel('Message').fill('Once upon a time')
      await page.getByLabel('Message').press('Enter')
      const figures = page.getByText(/TTFT .* tokens\/s · 30 tokens · \d+ of \d+ cached/)
      await figures.waitFor()
      const answers = page.locator('.assistant .markdown')
      t.match(await answers.innerText(), /\w+ \w+/)
      await auditAll(t, page)

      await page.getByRole('button', { name: 'Regenerate' }).click()
      await page.getByText('2 of 2').waitFor()
      await figures.waitFor()
      await page.getByRole('button', { name: 'Branch before' }).click()
      await page.getByText('1 of 2').waitFor()
      await page.getByRole('button', { name: 'Edit' }).click()
      await page.getByLabel('Edit the message').fill('There was a dragon')
      await page.getByRole('button', { name: 'Send' }).first().click()
      await page.getByText('There was a dragon').first().waitFor()
      await figures.waitFor()
      t.equal(await page.locator('.turn').count(), 2, 'the edited question took its place')

      const saved = page.waitForEvent('download')
      await page.getByRole('button', { name: 'Export Markdown' }).click()
      t.equal((await saved).suggestedFilename(), 'Once upon a time.md')
      await page.reload()
      await page.getByRole('button', { name: 'Once upon a time', exact: true }).click()
      t.equal(await page.locator('.turn').count(), 2, 'the browser keeps it')
      t.equal(await page.getByLabel('Most tokens').inputValue(), '30', 'and the settings')
    },
  )

  await step('chat: stopped', async (t) => {
    await page.getByRole('button', { name: 'New chat' }).click()
    await page.getByText('Settings').click()
    await page.getByLabel('Most tokens').fill('200')
    await page.getByLabel('Message').fill('A long story')
    await page.getByLabel('Message').press('Enter')
    await page.locator('.assistant .markdown').waitFor()
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText('Stopped').waitFor()
    t.ok(await page.getByRole('button', { name: 'Send' }).isVisible())
  })

  await step('scheduler: slots, queue, a request and why it waited, another policy', async (t) => {
    await page.getByRole('link', { name: 'Scheduler' }).click()
    await page.getByText('In force: adaptive+fcfs').waitFor()
    const load = Array.from({ length: 8 }, async (_, index) => {
      const response = await fetch(`${url}/generate`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-cllm-tenant': `team-${index % 2}` },
        body: JSON.stringify({ prompt: `Story ${index}`, max_tokens: 80, ignore_eos: true }),
      })
      return response.status
    })
    await page.getByRole('heading', { name: /^Queue: [1-9]/ }).waitFor()
    await page.getByText('all slots were taken').first().waitFor()
    await page.getByRole('img', { name: /2 of 2 slots busy, \d+ requests wait/ }).waitFor()
    await page.getByLabel('Another one').selectOption('chunked+fair')
    await page.getByRole('button', { name: 'Set the policy' }).click()
    await page.getByText('In force: chunked+fair').waitFor()
    await page.getByRole('region', { name: 'Queue' }).getByRole('link').last().click()
    await page.getByText(/waited .*all slots were taken/).waitFor()
    t.same([...new Set(await Promise.all(load))], [200])
    await page.getByText(/ended: length/).waitFor()
    await page.getByRole('rowheader', { name: 'team-1' }).waitFor()
    t.match(await page.getByLabel('Figures').innerText(), /TTFT\s+\d.*\nITL\s+\d/)
    await auditAll(t, page)
  })

  await step(
    'lab: a made load and the last minutes, through policies, and one applied',
    async (t) => {
      await page.getByRole('link', { name: 'Lab' }).click()
      await page.getByLabel('Requests', { exact: true }).fill('40')
      await page.getByRole('button', { name: 'Run' }).click()
      const results = page.getByRole('region', { name: 'Results' })
      await results.getByRole('columnheader', { name: 'adaptive+sjf' }).waitFor()
      t.match(await results.innerText(), /TTFT p50\s+[\d.]+ m?s.*\s+[\d.]+ m?s/)
      await auditAll(t, page)
      await page.getByRole('combobox', { name: 'Policy 2' }).selectOption('adaptive+own')
      await page.getByLabel(/^The order own/).fill('-request.promptTokens')
      await page.getByRole('button', { name: 'Run' }).click()
      await results.getByRole('columnheader', { name: 'adaptive+own' }).waitFor()
      await page.getByLabel('Requests of').selectOption("this server's last minutes")
      await page.getByRole('combobox', { name: 'Policy 2' }).selectOption('static+fcfs')
      await page.getByLabel('Slots').fill('2')
      await page.getByRole('button', { name: 'Run' }).click()
      await page.getByText(/\d+ requests and \d+ steps of/).waitFor()
      await page.getByRole('button', { name: 'Apply static+fcfs' }).waitFor()
      t.match(await results.innerText(), /✓/, 'which one is better shows')
      await page.getByRole('button', { name: 'Apply adaptive+fcfs' }).click()
      await page.getByText('adaptive+fcfs is in force on the server').waitFor()
      const { data } = (await (await fetch(`${url}/admin/scheduler`)).json()) as {
        data: { policy: string }
      }
      t.equal(data.policy, 'adaptive+fcfs')
    },
  )

  await step('models: unloaded, loaded, and one that no source has', async (t) => {
    await page.getByRole('link', { name: 'Models' }).click()
    await page.getByRole('button', { name: 'Unload stories15m' }).click()
    await page.getByText('stories15m is unloaded').waitFor()
    await page.getByRole('button', { name: 'Load stories15m', exact: true }).click()
    await page.getByText('stories15m is loaded').waitFor()
    await page.getByLabel('A name, or').fill('no-such-model')
    await page.getByRole('button', { name: 'Fetch' }).click()
    await page.getByText(/no-such-model/).waitFor()
    await auditAll(t, page)
    // That answer is no failure of the page.
    wrong.splice(0, wrong.length, ...wrong.filter((each) => !/status of 404/.test(each)))
  })

  await step('everything by keyboard: a page, a message, its answer', async (t) => {
    await page.goto(`${url}/ui/`)
    await page.reload()
    await tabTo(page, 'Scheduler')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Scheduler' }).waitFor()
    await page.reload()
    await tabTo(page, 'Chat')
    await page.keyboard.press('Enter')
    await tabTo(page, 'Message')
    await page.keyboard.type('Once upon')
    await page.keyboard.press('Enter')
    await page.getByText(/TTFT/).waitFor()
    t.match(await page.locator('.assistant').innerText(), /\w/)
  })
})

t.test('the page behind keys', { skip }, async (t) => {
  const key = 'a-key-of-an-admin'
  const flags = ['--model', 'stories15m', '--api-key', key, '--usage', t.testdir()]
  const { url } = await serve(t, ...flags)
  const browser = await startBrowser(t, executable!)
  const page = await browser.newPage({ colorScheme: 'light', acceptDownloads: true })
  page.setDefaultTimeout(20_000)
  const wrong = watchPage(page, url)
  await page.goto(`${url}/ui/#scheduler`)
  await page.getByRole('alert').first().waitFor()
  t.same(await auditPage(page), [])
  await page.locator('input[type=password]').fill('another')
  await page.getByRole('button', { name: 'Use it' }).click()
  await page
    .getByText(/valid here/)
    .first()
    .waitFor()
  await page.locator('input[type=password]').fill(key)
  await page.getByRole('button', { name: 'Use it' }).click()
  await page.getByText('In force: adaptive+fcfs').waitFor()
  await page.reload()
  await page.getByText('In force: adaptive+fcfs').waitFor()
  t.equal(await page.evaluate('localStorage.getItem("cllm-key")'), null, 'until the tab is closed')
  const answered = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ prompt: 'Once', max_tokens: 5, ignore_eos: true }),
  })
  t.equal(answered.status, 200)
  await answered.text()
  await page.getByRole('link', { name: 'Usage' }).click()
  await page.getByRole('combobox', { name: 'By' }).selectOption('model')
  const row = page.getByRole('row', { name: /^stories15m / })
  await row.waitFor()
  t.match(await row.innerText(), /stories15m\s+1\s+0\s+\d+\s+\d+\s+5/)
  const saved = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Save as CSV' }).click()
  t.equal((await saved).suggestedFilename(), 'usage.csv')
  await page.getByRole('textbox', { name: 'To', exact: true }).fill('2000-01-01')
  await page.getByText(/Nothing was asked for, |expected/).waitFor()
  await auditAll(t, page)
  t.same(wrong, [])
})

t.test('a setting turns it off', async (t) => {
  const registry = await loadRegistry(
    { plugins: [], pluginsFolder: '.' },
    { builtIns: [protocolsPlugin] },
  )
  const routes = (...argv: string[]) =>
    createProtocols(loadConfig({ argv, env: {} }), { registry, now: 0 }).flatMap(
      ({ name, routes = [] }) => (name === 'web' ? routes.map(({ path }) => path) : []),
    )
  t.same(routes(), ['/ui', '/ui/*file'])
  t.same(routes('--no-ui'), [])
})

t.test('pictures', { skip: isForPictures ? missing : 'SCREENSHOTS asks for them' }, async (t) => {
  const { url } = await serve(t, '--model', 'stories15m', '--slots', '8')
  const browser = await startBrowser(t, executable!)
  const page = await browser.newPage({ viewport: { width: 1100, height: 760 } })
  const shoot = async (name: string): Promise<void> => {
    await mkdir(pictures, { recursive: true })
    await page.evaluate('scrollTo(0, 0)')
    await page.screenshot({ path: fileURLToPath(new URL(`${name}.png`, pictures)) })
  }
  await page.goto(`${url}/ui/#scheduler`)
  await page.getByText('In force').waitFor()
  let left = 160
  const ask = async (index: number): Promise<void> => {
    while (left-- > 0) {
      const prompt = `Once upon a time ${'there was a dog '.repeat((left * 7) % 30)}${left}`
      const body = { prompt, max_tokens: 20 + ((left * 13) % 70), ignore_eos: true }
      const headers = {
        'content-type': 'application/json',
        'x-cllm-tenant': ['blue', 'green', 'red'][index % 3]!,
      }
      await fetch(`${url}/generate`, { method: 'POST', headers, body: JSON.stringify(body) })
    }
  }
  const load = Promise.all(Array.from({ length: 14 }, async (_, index) => await ask(index)))
  await page.getByText(/\b[5-9]\d requests ended/).waitFor({ timeout: 60_000 })
  await shoot('scheduler')
  await load
  await page.getByRole('link', { name: 'Lab' }).click()
  await page.getByLabel('Requests of').selectOption("this server's last minutes")
  await page.getByRole('combobox', { name: 'Policy 2' }).selectOption('static+fcfs')
  await page.getByRole('button', { name: 'Run' }).click()
  await page.getByRole('button', { name: 'Apply static+fcfs' }).waitFor()
  await shoot('lab')
})
