import { mkdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { serve } from '../serve-process.js'
import { auditPage, findBrowser, startBrowser, watchPage } from './browser.js'

const executable = findBrowser()
const skip = executable === undefined && 'there is no Chromium on PATH'
const pictures = new URL('../../../../docs/images/', import.meta.url)

/** A picture for the docs, where the environment asks for pictures. */
async function picture(page: Page, name: string): Promise<void> {
  if (process.env['SCREENSHOTS'] === undefined) return
  await mkdir(pictures, { recursive: true })
  await page.evaluate('scrollTo(0, 0)')
  await page.screenshot({ path: fileURLToPath(new URL(`${name}.png`, pictures)) })
}

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
  t.same(await auditPage(page), [], 'phone')
  await page.setViewportSize(size)
}

t.test('the page, used as a person would', { skip }, async (t) => {
  const { url } = await serve(t, '--model', 'stories15m', '--slots', '2')
  const browser = await startBrowser(t, executable!)
  const context = await browser.newContext({ colorScheme: 'light', acceptDownloads: true })
  const page = await context.newPage()
  const wrong = watchPage(page, url)
  page.setDefaultTimeout(8000)
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
        body: JSON.stringify({ prompt: `Story ${index}`, max_tokens: 100, ignore_eos: true }),
      })
      return response.status
    })
    await page.getByRole('heading', { name: /^Queue: [1-9]/ }).waitFor()
    await page.getByText('all slots were taken').first().waitFor()
    await page.getByRole('img', { name: /2 of 2 slots busy, \d+ requests wait/ }).waitFor()
    await page.getByLabel('Another one').selectOption('chunked+fair')
    await page.getByRole('button', { name: 'Set the policy' }).click()
    await page.getByText('In force: chunked+fair').waitFor()
    await page.getByText(/[2-9] requests ended/).waitFor()
    await picture(page, 'scheduler')
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
      await page.getByLabel('Requests of').selectOption("this server's last minutes")
      await page.getByRole('combobox', { name: 'Policy 2' }).selectOption('static+fcfs')
      await page.getByLabel('Slots').fill('2')
      await page.getByRole('button', { name: 'Run' }).click()
      await page.getByText(/\d+ requests and \d+ steps of/).waitFor()
      await page.getByRole('button', { name: 'Apply static+fcfs' }).waitFor()
      const longest = await results.getByRole('row', { name: 'TTFT p99' }).innerText()
      t.match(longest, /✓/, 'which one is better shows')
      await picture(page, 'lab')
      await page.getByRole('button', { name: 'Apply adaptive+fcfs' }).click()
      await page.getByText('adaptive+fcfs is in force on the server').waitFor()
      const { data } = (await (await fetch(`${url}/admin/scheduler`)).json()) as {
        data: { policy: string }
      }
      t.equal(data.policy, 'adaptive+fcfs')
    },
  )
})
