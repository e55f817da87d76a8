import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { auditAll, auditPage, isDocked, type Visit, withSettings } from './browser.js'
import { until } from '../until.js'

const figures = /TTFT .* tokens\/s · \d+ tokens · \d+ of \d+ cached/
const weather = JSON.stringify([
  {
    type: 'function',
    function: {
      name: 'weather',
      parameters: {
        type: 'object',
        properties: { city: { enum: ['Rome', 'Oslo'] } },
        required: ['city'],
      },
    },
  },
])

/** On paper are dark letters, and nothing lies over them. */
async function isPrinted(t: Test, page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Dark' }).click()
  await page.getByRole('button', { name: 'Settings', exact: true }).press('Enter')
  await page.locator('[aria-label="Close the settings"]:focus').waitFor()
  await page.emulateMedia({ media: 'print' })
  const over = `[...document.querySelectorAll('body *')].filter((each) => each.checkVisibility() &&
    ['fixed', 'sticky'].includes(getComputedStyle(each).position)).map((each) => each.className)`
  t.same(await page.evaluate<string[]>(over), [])
  t.equal(await page.evaluate('getComputedStyle(document.body).color'), 'rgb(22, 24, 29)')
  t.ok(await page.locator('.assistant .markdown').isVisible())
  await page.emulateMedia({ media: null })
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Light' }).click()
}

/** Settings, another answer, another question, and what the browser keeps. */
export async function chatsAndBranches(t: Test, { page }: Visit): Promise<void> {
  await page.getByRole('link', { name: 'Chat' }).click()
  await page.getByRole('button', { name: 'New chat' }).click()
  await page.getByLabel('Message').fill('word '.repeat(600))
  await page.getByLabel('Message').press('Enter')
  const refusal = page.locator('.assistant').getByText(/tokens/)
  await refusal.waitFor()
  const { y, height } = (await refusal.boundingBox())!
  t.ok(y + height <= page.viewportSize()!.height, `why a long question failed is in view: ${y}`)
  await page.getByRole('button', { name: 'New chat' }).click()
  const asked = page.waitForRequest('**/props?model=stories15m')
  await page.route('**/props?*', async (route) => await route.fulfill({ status: 503 }))
  await withSettings(page, async () => {
    await asked
    for (const name of ['Temperature', 'Top p', 'Max tokens']) {
      t.equal(await page.getByLabel(name).getAttribute('placeholder'), 'default', 'not known yet')
    }
  })
  await page.unroute('**/props?*')
  await withSettings(page, async () => {
    await page.getByPlaceholder('0.8').waitFor() // what the server does by default
    await page.getByLabel('Max tokens').fill('30')
    await page.getByLabel('Temperature').fill('0')
    t.same(await auditPage(page), [], 'the settings')
  })
  await page.getByLabel('Message').fill('Once upon a time')
  await page.getByLabel('Message').press('Enter')
  await page.getByText(/· 30 tokens ·/).waitFor()
  await page.getByText('Stopped at the limit').waitFor()
  await auditAll(t, page)
  await isDocked(t, page)
  await isPrinted(t, page)
  const first = await page.locator('.assistant .markdown').innerText()
  await page.getByRole('button', { name: 'Continue' }).click()
  const answer = page.locator('.assistant .markdown')
  await until(async () => (await answer.innerText()).length > first.length)
  await page.getByText('An answer is coming').waitFor({ state: 'detached' })
  await page.getByText(/· 30 tokens ·/).waitFor()
  const whole = await answer.innerText()
  t.ok(whole.startsWith(first) && whole.length > first.length, 'it goes on where it was cut')

  await page.getByRole('button', { name: 'Regenerate' }).click()
  await page.getByText('2 of 2').waitFor()
  await page.getByText(figures).waitFor()
  await page.getByRole('button', { name: 'Branch before' }).click()
  await page.getByText('1 of 2').waitFor()
  await page.getByRole('button', { name: 'Edit' }).click()
  await page.getByLabel('Edit the message').fill('There was a dragon')
  await page.getByRole('button', { name: 'Send' }).first().click()
  await page.locator('.question').getByText('There was a dragon').waitFor()
  await page.getByText(figures).waitFor()
  t.equal(await page.locator('.turn').count(), 2, 'the edited question took its place')
  await page.locator('[aria-label=Message]:focus').waitFor()

  const saved = page.waitForEvent('download')
  await page.getByLabel('More of Once upon a time').click()
  await page.getByRole('button', { name: 'Save Markdown' }).click()
  t.equal((await saved).suggestedFilename(), 'Once upon a time.md')
  await page.reload()
  await page.getByRole('button', { name: 'Once upon a time', exact: true }).click()
  await page.locator('.turn').nth(1).waitFor()
  t.equal(await page.locator('.turn').count(), 2, 'the browser keeps it')
  t.equal(await page.getByLabel('Max tokens').inputValue(), '30', 'and the settings')
  await page.getByLabel('Message', { exact: true }).press('ArrowUp')
  await page.getByLabel('Edit the message').press('Escape')
}

/** What is asked is kept before it is answered, and two tabs that go on with one conversation lose nothing. */
export async function keepsAll(t: Test, { page, url }: Visit): Promise<void> {
  const history = (of: Page) => of.getByRole('button', { name: 'In two tabs', exact: true })
  const ask = async (of: Page, text: string): Promise<void> => {
    await of.getByLabel('Message').fill(text)
    await of.getByLabel('Message').press('Enter')
  }
  await page.getByRole('button', { name: 'New chat' }).click()
  await page.route('**/v1/chat/completions', () => {}) // never answers
  await ask(page, 'In two tabs')
  await page.getByText('Waiting').waitFor()
  await page.reload()
  await page.unroute('**/v1/chat/completions')
  await history(page).click()
  await page.locator('.question').getByText('In two tabs').waitFor()
  await page.getByText('Interrupted').waitFor()

  const other = await page.context().newPage()
  await other.goto(`${url}/ui/`)
  await history(other).waitFor()
  for (const [of, text] of [
    [page, 'from one tab'],
    [other, 'from the other'],
    [page, 'without having read it'],
  ] as const) {
    if (of === other) await history(other).click()
    await ask(of, text)
    await of.locator('.turn').last().getByText(figures).waitFor()
  }
  await other.getByLabel('More of In two tabs').click()
  await other.getByRole('button', { name: 'Pin', exact: true }).click()
  await other.getByRole('region', { name: 'Pinned' }).waitFor()
  await other.close()
  await page.evaluate("dispatchEvent(new Event('focus'))")
  await page.getByRole('region', { name: 'Pinned' }).waitFor()
  await page.getByLabel('More of In two tabs').click()
  await page.getByRole('button', { name: 'Unpin', exact: true }).click()
  await page.getByRole('region', { name: 'Pinned' }).waitFor({ state: 'detached' })
  await page.reload()
  await history(page).click()
  await page.getByText('2 of 2').waitFor()
  t.same(await page.locator('.question').allInnerTexts(), [
    'In two tabs',
    'from one tab',
    'without having read it',
  ])
  await page.getByRole('button', { name: 'Branch before' }).click()
  await page.locator('.question').getByText('from the other').waitFor()
}

/** A model calls a tool, its user says what that gave, and the model answers. */
export async function toolsByHand(t: Test, { page }: Visit): Promise<void> {
  await page.getByRole('button', { name: 'New chat' }).click()
  await withSettings(page, async () => {
    await page.getByLabel(/^Tools/).fill(weather)
    await page.getByLabel('Tool choice').selectOption('required')
    await page.getByLabel('Max tokens').fill('120')
  })
  await page.getByLabel('Message').fill('How is the weather?')
  await page.getByLabel('Message').press('Enter')
  await page.getByRole('region', { name: 'Arguments of weather' }).first().waitFor()
  const result = page.getByLabel(/^Result of weather/)
  await result.first().waitFor()
  t.match(await page.locator('.call pre').first().innerText(), /"city": "(Rome|Oslo)"/)
  for (const field of await result.all()) await field.fill('sunny')
  await withSettings(page, async () => {
    await page.getByLabel('Tool choice').selectOption('none')
    await page.getByLabel('Max tokens').fill('9')
  })
  await auditAll(t, page)
  await page.getByRole('button', { name: /^Give the result/ }).click()
  await page.getByRole('region', { name: 'Result of weather' }).first().waitFor()
  await page.locator('[aria-label=Message]:focus').waitFor()
  await page.locator('.turn').nth(3).getByText(figures).waitFor()
  await page.locator('.turn').nth(2).getByRole('button', { name: 'Edit' }).click()
  await page
    .getByLabel(/^Result of weather/)
    .first()
    .fill('snow')
  await page.getByRole('button', { name: /^Give the result/ }).click()
  await page.getByText('2 of 2').waitFor()
  await page.locator('.turn').nth(3).getByText(figures).waitFor()
  t.match(await page.locator('.turn').nth(2).innerText(), /snow/)
  await withSettings(page, async () => await page.getByLabel(/^Tools/).fill(''))
}

/** A model calls a tool of an MCP server; nothing runs until a button is pressed. */
export async function toolsByMcp(t: Test, { page }: Visit): Promise<void> {
  await page.getByRole('button', { name: 'New chat' }).click()
  const offer = page.getByLabel(/^Offer the MCP servers' tools/)
  t.notOk(await offer.isChecked(), 'off by default')
  await withSettings(page, async () => {
    await offer.check()
    await page.getByLabel('Tool choice').selectOption('required')
    await page.getByLabel('Max tokens').fill('120')
  })
  const called: string[] = []
  page.on('request', (request) => {
    if (request.url().endsWith('/mcp/call')) called.push(request.postData() ?? '')
  })
  const asked = page.waitForRequest('**/v1/chat/completions')
  await page.getByLabel('Message').fill('How is the weather?')
  await page.getByLabel('Message').press('Enter')
  const { tools } = (await asked).postDataJSON() as { readonly tools: readonly object[] }
  t.match(tools, [{ type: 'function', function: { name: 'weather__forecast' } }])
  const run = page.getByRole('button', { name: /^Run weather__\w+ with these arguments/ }).first()
  await run.waitFor()
  t.same(called, [], 'nobody has agreed yet')
  t.same(await auditPage(page), [])
  const answered = page.waitForResponse('**/mcp/call')
  await run.click()
  const { content } = (await (await answered).json()) as { readonly content?: string }
  t.equal(called.length, 1)
  const result = page.getByLabel(/^Result of weather__/).first()
  if (content !== undefined) t.equal(await result.inputValue(), content)
  await withSettings(page, async () => {
    await page.getByLabel('Tool choice').selectOption('')
    await offer.uncheck()
  })
}

/** An answer that is not waited for. */
export async function stops(t: Test, { page }: Visit): Promise<void> {
  await withSettings(page, async () => await page.getByLabel('Max tokens').fill('200'))
  const isStopped = async (): Promise<boolean> => {
    await page.keyboard.press('Control+k')
    await page.getByText('What would you like to know?').waitFor()
    await page.getByLabel('Message').fill('A long story')
    await page.getByLabel('Message').press('Enter')
    await page.locator('.assistant .markdown').waitFor()
    await page.keyboard.press('Escape')
    await page.getByText('Stopped').waitFor({ timeout: 2_000 })
    return true
  }
  // The model is fast: an answer may end just before it is stopped.
  let stopped = false
  for (let attempt = 0; attempt < 20 && !stopped; attempt++) {
    stopped = await isStopped().catch(() => false)
  }
  t.ok(stopped)
  t.ok(await page.getByRole('button', { name: 'Send' }).isVisible())
}

/** Code, a formula and a table, in what the server answers. */
export async function richAnswers(t: Test, { page, shoot }: Visit): Promise<void> {
  await page.getByRole('link', { name: 'Chat' }).click()
  await withSettings(page, async () => {
    await page.getByLabel('Temperature').fill('0')
    await page.getByLabel('Max tokens').fill('400')
  })
  await page.getByLabel('Message').fill('How is a mean computed?')
  await page.getByLabel('Message').press('Enter')
  await page.locator('.code .hljs-keyword').first().waitFor()
  await page.locator('.formula .katex-display').waitFor()
  await page.locator('.markdown p .katex').first().waitFor()
  await page.getByText(figures).waitFor()
  t.ok(await page.locator('.formula pre').isHidden(), 'in place of its source')
  t.equal(await page.evaluate('document.fonts.check("16px KaTeX_Main")'), true)
  t.equal(await page.locator('.markdown table').count(), 1)
  await shoot('chat')
  await auditAll(t, page)
}
