import type { Request } from 'playwright-core'
import type { Test } from 'tap'
import { auditAll, auditPage, gate, type Visit, withSettings } from './browser.js'

/** The page asks for a key, and keeps it until its tab is closed. */
export async function asksForKey(t: Test, { page, url }: Visit, key: string): Promise<void> {
  await page.goto(`${url}/ui/#scheduler`)
  await page.getByRole('alert').first().waitFor()
  t.same(await auditPage(page), [])
  await page.locator('input[type=password]').fill(`${key.slice(0, 9)}\u200b${key.slice(9)}`)
  await page.getByRole('button', { name: 'Use it' }).click()
  await page.getByText(/this one has other characters/).waitFor()
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
}

/** A user's key is enough for the chat; what is refused elsewhere, or typed wrong, does not end that. */
export async function keepsChat(
  t: Test,
  { page }: Visit,
  keys: { readonly user: string; readonly admin: string },
): Promise<void> {
  const give = async (key: string): Promise<void> => {
    await page.locator('input[type=password]').fill(key)
    await page.getByRole('button', { name: 'Use it' }).click()
  }
  const form = page.getByRole('form', { name: 'API key' })
  const later = async (): Promise<void> => {
    await page.getByRole('button', { name: 'Not now' }).click()
    await form.waitFor({ state: 'detached' })
  }
  const ask = async (): Promise<void> => {
    await page.getByRole('link', { name: 'Chat' }).click()
    await page.getByLabel('Message').fill('How is a mean computed?')
    await page.getByLabel('Message').press('Enter')
  }
  const answered = page
    .locator('.turn')
    .last()
    .getByText(/TTFT .* tokens/)

  await page.evaluate('sessionStorage.clear()')
  await page.reload()
  await page.getByRole('link', { name: 'Chat' }).click()
  await give(keys.user)
  await form.waitFor({ state: 'detached' })
  await withSettings(page, async () => await page.getByLabel('Max tokens').fill('9'))
  await page.getByRole('link', { name: 'Scheduler' }).click()
  await form.getByText(/needs a key with the role admin/).waitFor()
  await page.evaluate("main.style.minHeight = '3000px'; scrollTo(0, 1500)")
  const { y } = (await form.boundingBox())!
  t.ok(y >= 0 && y < 100, `it is in view, wherever one reads: ${y}`)
  await page.evaluate("main.style.minHeight = ''; scrollTo(0, 0)")
  await later()
  await ask()
  await answered.waitFor()
  await page.getByRole('link', { name: 'Scheduler' }).click()
  await give('another')
  await form.getByText(/valid here/).waitFor()
  await later()
  const held = gate()
  await page.route('**/v1/chat/completions', async (route) => {
    await held.isOpen
    await route.continue()
  })
  await ask()
  t.equal(await page.locator('.turn').count(), 4, 'the conversation is still there')
  await page.getByRole('link', { name: 'Scheduler' }).click()
  await give(keys.admin)
  await page.getByText('In force: adaptive+fcfs').waitFor()
  held.open()
  await page.getByRole('link', { name: 'Chat' }).click()
  await answered.waitFor()
  t.equal(await page.locator('.problem').count(), 0, 'the answer came to its end')
}

/** A key is made, shown once, used, and revoked; what is wrong is told. */
export async function keysPage(t: Test, { page, url, shoot }: Visit): Promise<void> {
  const status = async (key: string): Promise<number> => {
    const answer = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
    await answer.text()
    return answer.status
  }
  await page.getByRole('link', { name: 'Keys' }).click()
  await page.getByRole('row', { name: /^ops ops admin .* this page's/ }).waitFor()
  await page.getByLabel('Name').fill('ann')
  await page.getByLabel('Tenant').fill('shop')
  await page.getByLabel('Requests a minute').fill('60')
  await page.getByRole('button', { name: 'Make the key' }).click()
  const secret = await page.locator('.secret code').innerText()
  t.match(secret, /^cllm_[\w-]{43}$/)
  t.equal(await status(secret), 200, 'it is valid at once')
  const row = page.getByRole('row', { name: /^ann / })
  await page.getByRole('row', { name: /^ann shop user 60 / }).waitFor()
  await auditAll(t, page)
  await shoot('keys')
  await page.getByRole('button', { name: 'I have it' }).click()
  await page.reload()
  await row.waitFor()
  t.notOk((await page.content()).includes(secret), 'it is shown once')

  await row.getByRole('button', { name: 'Change the limits of ann' }).click()
  await page.locator('[aria-label="Requests a minute of ann"]:focus').waitFor()
  await row.getByLabel('Requests a minute of ann').fill('')
  await row.getByLabel('Tokens a month of ann').fill('9000')
  await auditAll(t, page)
  await row.getByRole('button', { name: 'Save' }).click()
  const changed = page.getByRole('row', { name: /^ann shop user the server's the server's 9,000 / })
  await changed.waitFor()
  t.equal(await status(secret), 200)

  await page.getByLabel('Name').fill('ann')
  await page.getByRole('button', { name: 'Make the key' }).click()
  await page.getByText(/there is a key "ann" already/).waitFor()
  await changed.getByRole('button', { name: 'Revoke ann' }).click()
  await page.getByRole('button', { name: 'Keep it' }).click()
  await changed.getByRole('button', { name: 'Revoke ann' }).click()
  await page.getByRole('button', { name: 'Revoke ann for good' }).click()
  await page.getByText('ann is revoked').waitFor()
  t.equal(await status(secret), 401)
  // The list is read again after the message.
  await row.waitFor({ state: 'detached' })
}

/** What the key has used, in a table and as a file. */
export async function usage(t: Test, { page, url }: Visit, key: string): Promise<void> {
  const answered = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'answers.md', prompt: 'Once', max_tokens: 5, ignore_eos: true }),
  })
  t.equal(answered.status, 200)
  await answered.text()
  await page.getByRole('link', { name: 'Usage' }).click()
  await page.getByRole('combobox', { name: 'By' }).selectOption('key')
  const row = page.getByRole('row', { name: /^ops \d/ })
  await row.waitFor()
  t.match(await row.innerText(), /ops\s+1\s+0\s+\d+\s+\d+\s+5/)
  const saved = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Save as CSV' }).click()
  t.equal((await saved).suggestedFilename(), 'usage.csv')
  await page.getByRole('textbox', { name: 'To', exact: true }).fill('2000-01-01')
  await page.getByText(/No requests, |expected/).waitFor()
  await auditAll(t, page)
}

/** A server without keys and usage: the tabs say how to switch them on, and ask for nothing. */
export async function switchedOff(t: Test, { page }: Visit): Promise<void> {
  const asked: string[] = []
  const note = (request: Request): void => void asked.push(new URL(request.url()).pathname)
  page.on('request', note)
  for (const [tab, command] of [
    ['Keys', '--api-keys keys.json'],
    ['Usage', '--usage usage'],
  ] as const) {
    await page.getByRole('link', { name: tab }).click()
    await page.getByRole('heading', { name: tab }).waitFor()
    await page.locator('code', { hasText: command }).waitFor()
    t.ok(await page.getByRole('button', { name: 'Copy' }).isVisible())
    t.equal(await page.getByRole('textbox').count(), 0, 'no controls of a feature that is off')
    await auditAll(t, page)
  }
  page.off('request', note)
  const routes = new Set(asked.filter((path) => !path.startsWith('/ui/')))
  t.same([...routes], ['/v1/models'], 'nothing that would fail')
}

/** The list of routes at `/docs`: a request is sent by keyboard, streams, is stopped, and says what a key lacks. */
export async function triesRoutes(t: Test, { page, url }: Visit, key: string): Promise<void> {
  await page.goto(`${url}/docs`)
  const route = page.locator('details', { hasText: 'POST /v1/chat/completions Answer' })
  await route.locator('summary').focus()
  await page.keyboard.press('Enter')
  const [body, answer] = [route.getByLabel('Body'), route.getByLabel('Answer')]
  t.same(JSON.parse(await body.inputValue()), {
    messages: [{ role: 'user', content: 'Say hi.' }],
    stream: true,
  })
  t.same(await auditPage(page), [])
  await route.getByRole('button', { name: 'Send' }).press('Enter')
  await route.getByText('401 Unauthorized').waitFor()
  await page.getByLabel(/^API key/).fill(key)
  const long = { messages: [{ role: 'user', content: '<b>' }], stream: true, ignore_eos: true }
  // Eight of them: the model needs no time, and one could end before it is stopped.
  await body.fill(JSON.stringify({ ...long, n: 8 }))
  await route.getByRole('button', { name: 'Send' }).press('Enter')
  await answer.getByText(/data: .*"delta":/).waitFor()
  t.equal(await route.getByRole('status').innerText(), '200 OK', 'the answer is shown as it comes')
  await route.getByRole('button', { name: 'Stop' }).press('Enter')
  await route.getByText('stopped').waitFor()
  const files = page.locator('details', { hasText: 'POST /v1/files Upload' })
  await files.locator('summary').click()
  const lines = { name: 'lines.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from('{}') }
  await files.getByLabel('file').setInputFiles(lines)
  await files.getByRole('button', { name: 'Send' }).click()
  await files.getByText('200 OK').waitFor()
  t.match(JSON.parse(await files.getByLabel('Answer').innerText()), {
    filename: 'lines.jsonl',
    bytes: 2,
  })
  const one = page.locator('details', { hasText: 'GET /v1/models/{id}' })
  await one.locator('summary').click()
  await one.getByLabel('id').fill('a/b?c')
  await one.getByLabel('id').press('Enter')
  await one.getByText(/404 Not Found/).waitFor()
  t.match(await one.getByLabel('Answer').innerText(), /a\/b\?c/)
}
