import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { auditAll, type Visit, withSettings } from './browser.js'

/** A conversation is named, pinned, found, deleted, brought back, saved and taken in again. */
export async function conversations(t: Test, { page }: Visit): Promise<void> {
  const list = page.getByRole('region', { name: 'Conversations' })
  const entry = (name: string) => list.getByRole('button', { name, exact: true })
  const act = async (on: string, what: string): Promise<void> => {
    await page.getByLabel(`More of ${on}`).click()
    await list.getByRole('button', { name: what, exact: true }).click()
  }
  await act('In two tabs', 'Rename')
  await page.getByLabel('Name of In two tabs').fill('Tabs')
  await page.getByLabel('Name of In two tabs').press('Enter')
  await entry('Tabs').waitFor()
  await act('Tabs', 'Pin')
  await list.getByRole('region', { name: 'Pinned' }).getByText('Tabs').waitFor()
  await list.getByRole('button', { name: 'Search' }).click()
  await page.getByLabel('Search conversations').fill('without having READ')
  t.same(await list.getByRole('listitem').allInnerTexts(), ['Tabs'], 'by what was said')
  await auditAll(t, page)
  const saved = page.waitForEvent('download')
  await act('Tabs', 'Save JSON')
  const path = await (await saved).path()
  await act('Tabs', 'Delete')
  await entry('Tabs').waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Undo' }).click()
  await entry('Tabs').waitFor()
  await page.locator('.question').getByText('In two tabs').waitFor()
  await act('Tabs', 'Delete')
  await entry('Tabs').waitFor({ state: 'detached' })
  await page.getByLabel('Import a conversation').setInputFiles(path)
  await entry('Tabs').waitFor()
  await page.getByText('1 conversation imported', { exact: true }).waitFor()
  const wrong = { name: 'a.json', mimeType: 'application/json', buffer: Buffer.from('{"id":1}') }
  await page.getByLabel('Import a conversation').setInputFiles(wrong)
  await page.getByText('Nothing imported; a.json: not a conversation').waitFor()
  await list.getByRole('button', { name: 'Search' }).click()
}

/** In the page: a browser without room for settings, until it is freed. */
const settingsAreFull = `{
  const { setItem } = Storage.prototype
  Storage.prototype.setItem = () => {
    throw new DOMException('full', 'QuotaExceededError')
  }
  globalThis.freeRoom = () => { Storage.prototype.setItem = setItem }
}`

/** A file goes with a question; a preset is a chip; one question is answered twice. */
export async function filesAndPairs(t: Test, { page }: Visit): Promise<void> {
  await page.keyboard.press('Control+k')
  await withSettings(page, async () => {
    await page.getByLabel('System prompt', { exact: true }).fill('You tell stories.')
    await page.getByLabel('Name of the preset').fill('Teller')
    await page.evaluate(settingsAreFull)
    await page.getByRole('button', { name: 'Save preset' }).click()
    await page.getByText('This browser has no room left for it').waitFor()
    await page.evaluate('freeRoom()')
    await page.getByRole('button', { name: 'Save preset' }).click()
    await page.getByLabel('Max tokens').fill('12')
    await page.getByLabel(/^Ask each question twice/).check()
    await page.getByLabel('Its temperature').fill('0')
  })
  const question = page.getByRole('form', { name: 'Question' })
  await question.getByRole('button', { name: 'Teller' }).waitFor()
  const file = (name: string, mimeType: string, text: string) => {
    return { name, mimeType, buffer: Buffer.from(text) }
  }
  await page
    .getByLabel('Attach files')
    .setInputFiles([file('b', '', 'bytes\0'), file('a.txt', 'text/plain', 'A red ball.')])
  await page.getByText('b: not a text file').waitFor()
  t.same(await question.locator('li.chip span:first-of-type').allInnerTexts(), ['a.txt'])
  t.ok(await page.getByText('b: not a text file').isVisible(), 'also behind one that is taken')
  const asked = page.waitForRequest('**/v1/chat/completions')
  await page.getByLabel('Message', { exact: true }).fill('What is red?')
  await page.keyboard.press('Enter')
  const { messages } = (await asked).postDataJSON() as { readonly messages: readonly object[] }
  t.same(messages, [
    { role: 'system', content: 'You tell stories.' },
    { role: 'user', content: 'a.txt:\n```\nA red ball.\n```\n\nWhat is red?' },
  ])
  await page
    .getByText(/· \d+ tokens ·/)
    .nth(1)
    .waitFor()
  const boxes = await Promise.all(
    (await page.locator('.beside .assistant').all()).map(async (each) => await each.boundingBox()),
  )
  t.equal(boxes.length, 2)
  t.ok(boxes[0]!.y === boxes[1]!.y && boxes[0]!.x < boxes[1]!.x, 'side by side')
  await auditAll(t, page)
  await page.getByRole('button', { name: 'Choose this answer' }).click()
  await page.locator('.beside .assistant.chosen').nth(0).waitFor()
  await page.getByRole('button', { name: 'Compare two answers' }).click()
  await withSettings(page, async () => {
    await page.getByLabel('System prompt', { exact: true }).fill('')
  })
}

/** In the page: an answer that breaks off when it is told to, and a browser that has no room. */
const breaks = `{
  const before = fetch
  const half = 'data: {"choices":[{"delta":{"content":"* Half an answer\\\\n  * and a half"}}]}\\n\\n'
  globalThis.fetch = async (url, call) => {
    if (!String(url).includes('chat/completions')) return before(url, call)
    const start = (to) => {
      to.enqueue(new TextEncoder().encode(half))
      globalThis.breakOff = () => to.error(new TypeError('network error'))
      call.signal.addEventListener('abort', () => to.error(call.signal.reason))
    }
    return new Response(new ReadableStream({ start }))
  }
}`
const isFull = `IDBObjectStore.prototype.put = () => {
  throw new DOMException('full', 'QuotaExceededError')
}`

/** In the page: a browser that blocks cookies. */
const denied = `for (const name of ['localStorage', 'sessionStorage', 'indexedDB']) {
  const get = () => { throw new DOMException('denied', 'SecurityError') }
  Object.defineProperty(window, name, { get, configurable: true })
}`

/** In the page: the titles of what is stored, after all that was asked of the storage before. */
const stored = `new Promise((resolve) => {
  indexedDB.open('cllm-chat').onsuccess = ({ target }) => {
    const all = target.result.transaction('conversations').objectStore('conversations').getAll()
    all.onsuccess = () => resolve(all.result.map(({ title }) => title))
  }
})`

/** A conversation that is deleted while it is answered ends its answer, and is not stored again by it. */
export async function deletedEarly(t: Test, { page, url }: Visit): Promise<void> {
  await page.reload()
  await page.evaluate(breaks)
  const undo = page.getByRole('button', { name: 'Undo' })
  const start = async (question: string): Promise<void> => {
    await page.keyboard.press('Control+k')
    await page.getByLabel('Message', { exact: true }).fill(question)
    await page.keyboard.press('Enter')
    await page.getByText('Half an answer').waitFor()
  }
  const removeIn = async (tab: Page, title: string): Promise<void> => {
    await tab.getByLabel(`More of ${title}`).click()
    await tab.getByRole('button', { name: 'Delete', exact: true }).click()
    await tab.getByText(`“${title}” is deleted`).waitFor()
  }
  const isStored = async (title: string) => (await page.evaluate<string[]>(stored)).includes(title)
  await start('Deleted here?')
  await removeIn(page, 'Deleted here?')
  await page.getByText('What would you like to know?').waitFor()
  t.notOk(await isStored('Deleted here?'))
  await page.keyboard.press('Control+z')
  await page.getByText('Half an answer').waitFor()
  await page.getByText('Stopped', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Regenerate' }).click()
  await page.getByRole('button', { name: 'Stop' }).waitFor()
  await page.keyboard.press('Control+Shift+z')
  await undo.waitFor()
  await page.getByRole('button', { name: 'Send' }).waitFor()
  t.notOk(await isStored('Deleted here?'), 'nor when it is deleted again')

  await start('Deleted there?')
  const other = await page.context().newPage()
  await other.goto(`${url}/ui/`)
  await removeIn(other, 'Deleted there?')
  await other.close()
  await page.evaluate('breakOff()')
  await page.getByText('The connection to the server broke off').waitFor()
  t.notOk(await isStored('Deleted there?'), 'in another tab')
}

/** What came of an answer that breaks off stays, and a browser without room says so. */
export async function troubles(t: Test, { page }: Visit): Promise<void> {
  const ask = async (question: string): Promise<void> => {
    await page.getByLabel('Message', { exact: true }).fill(question)
    await page.keyboard.press('Enter')
  }
  await page.reload()
  await page.keyboard.press('Control+k')
  await page.evaluate(breaks)
  await ask('Does it break?')
  await page.getByText('Half an answer').waitFor()
  await page.evaluate('breakOff()')
  await page.getByText('The connection to the server broke off: try again.').waitFor()
  t.ok(await page.getByText('Half an answer').isVisible())
  const bullets = `[...document.querySelectorAll('.markdown ul')].map((each) => getComputedStyle(each).listStyleType)`
  t.same(
    await page.evaluate<string[]>(bullets),
    ['disc', 'circle'],
    'as outside of a list of turns',
  )
  await page.evaluate(isFull)
  await ask('Is there room?')
  const size = page.viewportSize()!
  await page.setViewportSize({ width: 390, height: 800 })
  await page.getByText('This browser has no room left').waitFor()
  const isCut = `(({ scrollWidth, clientWidth, scrollHeight, clientHeight }) =>
    scrollWidth > clientWidth || scrollHeight > clientHeight)(document.querySelector('.toast span'))`
  t.notOk(await page.evaluate(isCut), 'a phone shows what to do about it')
  await page.setViewportSize(size)
  await page.reload()
  const blocking = await page.context().newPage()
  await blocking.addInitScript(denied)
  await blocking.goto(page.url())
  await blocking.getByRole('button', { name: 'Dark' }).click()
  await blocking.getByLabel('Message', { exact: true }).waitFor()
  await blocking.close()
}
