import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { auditAll, clipped, gate, tabTo, type Visit } from './browser.js'

/** A model is unloaded and loaded; one that no source has is told so. */
export async function models(t: Test, { page }: Visit): Promise<void> {
  await page.getByRole('link', { name: 'Models' }).click()
  await page.getByRole('button', { name: 'Unload stories15m' }).click()
  await page.getByText('stories15m is unloaded').waitFor()
  await page.getByRole('button', { name: 'Load stories15m', exact: true }).press('Enter')
  await page.getByText('stories15m is loaded').waitFor()
  await page.locator('[aria-label="Unload stories15m"]:focus').waitFor() // and not another model's
  const away = '**/models'
  await page.route(away, async (route) => await route.fulfill({ status: 503, body: 'away' }))
  await page.getByRole('alert').getByText('away').waitFor()
  await page.unroute(away)
  await page.getByRole('alert').waitFor({ state: 'detached' })
  await page.route(away, async (route) => await route.abort())
  await page.getByRole('alert').getByText('The server does not answer: start it').waitFor()
  await page.unroute(away)
  await page.getByRole('alert').waitFor({ state: 'detached' })
  await page.getByLabel('Model of this server').fill('stories15m')
  await page.getByRole('button', { name: 'Compute' }).click()
  await page.getByText(/MB, of which .* are weights; .* free: it fits/).waitFor()
  const memory = page.locator('form', { hasText: 'Memory before loading' })
  await memory.getByLabel('Tokens per slot').fill('16000000')
  await page.getByRole('button', { name: 'Compute' }).click()
  await page.getByText(/it does not fit/).waitFor()
  await page.getByLabel('Model of this server').fill('no-model')
  await page.getByRole('button', { name: 'Compute' }).click()
  await page.getByText(/model 'no-model' not found/).waitFor()
  await page.getByLabel(/^Name in the catalog/).fill('no-such-model')
  await page.getByRole('button', { name: 'Download', exact: true }).click()
  await page.getByText(/no-such-model/).waitFor()
  const catalog = page.getByRole('region', { name: 'Catalog' })
  const large = catalog.getByRole('row', { name: /^qwen3-4b / })
  await large.getByText('yes').or(large.getByText('no')).waitFor()
  await catalog.getByLabel('Tokens per slot').fill('16000000')
  await large.getByText('no').waitFor()
  const refused = { body: '{"error":"it is not reached"}\n' }
  await page.route('**/api/pull', async (route) => await route.fulfill(refused))
  await large.getByRole('button', { name: 'Download qwen3-4b' }).click()
  await large.getByText('it is not reached').waitFor()
  await page.unroute('**/api/pull')
  t.ok(await large.getByRole('button', { name: 'Download qwen3-4b' }).isEnabled())
  await auditAll(t, page)
  await onPhone(t, page)
  await fetches(t, page)
}

/** On a phone every value and button of a model is on the screen. */
async function onPhone(t: Test, page: Page): Promise<void> {
  const size = page.viewportSize()!
  await page.setViewportSize({ width: 390, height: 840 })
  const models = page.getByRole('region', { name: 'Models', exact: true })
  t.same(await clipped(models), [])
  const { x, width } = (await models.getByRole('button').last().boundingBox())!
  t.ok(x >= 0 && x + width <= 390, 'the button is there without scrolling')
  await page.setViewportSize(size)
}

/** A fetch goes on while another page is shown, and what it fetched can be chosen there. */
async function fetches(t: Test, page: Page): Promise<void> {
  const ids = ['stories15m', 'fetched']
  const json = { data: ids.map((id) => ({ id })) }
  await page.route('**/v1/models', async (route) => await route.fulfill({ json }))
  const held = gate()
  await page.route('**/api/pull', async (route) => {
    await held.isOpen
    await route.fulfill({ body: '{"status":"success"}\n' })
  })
  await page.getByLabel(/^Name in the catalog/).fill('fetched')
  await page.getByRole('button', { name: 'Download', exact: true }).click()
  await page.getByText('asking').waitFor()
  await page.getByRole('link', { name: 'Lab' }).click()
  await page.getByRole('link', { name: 'Models' }).click()
  await page.getByText('asking').waitFor()
  t.ok(
    await page.getByRole('button', { name: 'Download', exact: true }).isDisabled(),
    'one at a time',
  )
  held.open()
  await page.getByText('success').waitFor()
  await page.getByRole('link', { name: 'Chat' }).click()
  await page.getByRole('combobox', { name: 'Model', exact: true }).selectOption('fetched')
  await page.getByRole('combobox', { name: 'Model', exact: true }).selectOption('')
  await page.unrouteAll()
}

/** All of it without a mouse. */
export async function keyboard(t: Test, { page, url }: Visit): Promise<void> {
  await page.goto(`${url}/ui/`)
  await page.reload()
  await tabTo(page, 'Scheduler')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Scheduler' }).waitFor()
  await page.reload()
  await tabTo(page, 'Chat')
  await page.keyboard.press('Enter')
  await page.locator('textarea[aria-label=Message]:focus').waitFor()
  await page.keyboard.type('Once upon')
  await page.keyboard.press('Enter')
  await page.getByText(/TTFT .* tokens ·/).waitFor()
  t.match(await page.locator('.assistant').innerText(), /\w/)
  const settings = page.getByRole('complementary', { name: 'Settings' })
  await page.getByRole('button', { name: 'Settings', exact: true }).press('Enter')
  await page.getByLabel('Max tokens').waitFor()
  await tabTo(page, 'Copy the question')
  await settings.waitFor({ state: 'hidden' })
  // What has the focus goes, and the control nearest to it has it then.
  await page.getByRole('button', { name: 'Edit' }).press('Enter')
  await page.getByLabel('Edit the message').press('Escape')
  await page.locator('.turn.user button:focus').waitFor()
  await page.getByRole('button', { name: 'Regenerate' }).press('Enter')
  await page.locator('.turns button:focus').waitFor()
  await page.getByText('2 of 2').waitFor()
  await page.getByRole('button', { name: 'Branch before' }).press('Enter')
  await page.locator('.turns button:focus').waitFor()
  const request = page.getByRole('region', { name: 'A request' })
  await tabTo(page, 'Scheduler')
  await page.keyboard.press('Enter')
  await page.reload()
  await page.getByText('In force:').waitFor()
  const slots = 'Slots over time: the arrow keys choose a request'
  await page.getByLabel(slots).waitFor()
  await tabTo(page, 'Skip to the page')
  await page.keyboard.press('Enter')
  await tabTo(page, slots)
  await page.keyboard.press('ArrowLeft')
  await request.getByText('first token').waitFor()
  await page.keyboard.press('Escape')
  await request.waitFor({ state: 'detached' })
}

/** In the page: whether the control that has the focus lies below another part. */
const isCovered = `(() => {
  const { left, right, top, bottom } = document.activeElement.getBoundingClientRect()
  const seen = document.elementFromPoint((left + right) / 2, Math.min(bottom, (top + bottom) / 2))
  return document.activeElement !== document.body && !document.activeElement.contains(seen)
})()`

/** What is opened, taken away or left leaves the focus where it is seen, and where Enter does no harm. */
export async function keepsFocus(t: Test, { page }: Visit): Promise<void> {
  const focused = async (selector: string): Promise<void> =>
    await page.locator(`${selector}:focus`).waitFor()
  const size = page.viewportSize()!
  await tabTo(page, 'Chat')
  await page.keyboard.press('Enter')
  await page.keyboard.press('Control+k')
  const text = { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('A ball') }
  await page.getByLabel('Attach files').setInputFiles(text)
  await page.getByRole('button', { name: 'Remove a.txt' }).press('Enter')
  await focused('[aria-label=Message]')
  await page.getByRole('button', { name: 'Tell me a short story' }).press('Enter')
  await focused('[aria-label=Message]')
  await page.getByText(/TTFT .* tokens ·/).waitFor()

  await page.getByRole('button', { name: 'Regenerate' }).press('Enter')
  await page.getByText('2 of 2').waitFor()
  await page.getByText(/TTFT .* tokens ·/).waitFor()
  await page.getByRole('button', { name: 'Branch before' }).press('Enter')
  await page.getByText('1 of 2').waitFor()
  await focused('[aria-label="Branch before"]')
  await page.route('**/v1/chat/completions', () => {}) // never answers
  await page.getByLabel('Message', { exact: true }).fill('And then?')
  await page.getByLabel('Message', { exact: true }).press('Enter')
  await page.getByRole('button', { name: 'Stop' }).press('Enter')
  await page.getByText('Stopped', { exact: true }).waitFor()
  await focused('[aria-label=Send]')
  await page.unrouteAll()
  await page.setViewportSize({ width: 1000, height: 400 })
  await page.getByLabel('Message', { exact: true }).focus()
  for (const key of ['Shift+Tab', 'Tab']) {
    for (let count = 0; count < 6; count++) {
      await page.keyboard.press(key)
      const name = await page.evaluate('document.activeElement.ariaLabel')
      t.notOk(await page.evaluate(isCovered), `${String(name)} is in view`)
    }
  }
  await page.getByRole('link', { name: 'why' }).first().press('Enter')
  await focused('[aria-label="A request"]')
  await page.getByRole('region', { name: 'A request' }).getByText('first token').waitFor()
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await focused('.body *')

  await page.setViewportSize({ width: 390, height: 800 })
  await page.getByRole('button', { name: 'Menu' }).press('Enter')
  await focused('nav a')
  await page.getByLabel('More of Tell me a short story').press('Enter')
  await page.keyboard.press('Escape')
  t.ok(await page.getByRole('link', { name: 'Lab' }).isVisible(), 'only the inner menu is closed')
  await page.getByLabel('More of Tell me a short story').press('Enter')
  await page.getByRole('button', { name: 'Delete' }).press('Enter')
  const undo = page.getByRole('button', { name: 'Undo' })
  await undo.waitFor()
  await undo.focus()
  t.notOk(await page.evaluate(isCovered), 'above the menu')
  await page.getByRole('button', { name: 'Menu' }).press('Enter')
  await page.getByRole('link', { name: 'Lab' }).press('Enter')
  await focused('.bar [aria-label=Menu]')
  await page.keyboard.press('Control+z')
  await undo.waitFor({ state: 'detached' })
  await page.getByText(/^“Tell me a short story.*” is back$/).waitFor()
  await page.keyboard.press('Control+Shift+z')
  await undo.waitFor()
  await page.keyboard.press('Control+Shift+z')
  t.ok(await undo.isVisible(), 'there is nothing to do again')
  await page.keyboard.press('Control+z')
  await undo.waitFor({ state: 'detached' })
  await page.setViewportSize(size)
  await page.getByRole('button', { name: 'Tell me a short story', exact: false }).first().waitFor()
}
