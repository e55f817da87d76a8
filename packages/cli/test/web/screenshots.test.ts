// slow: 42 pictures of the page, 40 s
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { pageFolder } from '@cllm/web'
import pixelmatch from 'pixelmatch'
import type { BrowserContext, Page } from 'playwright-core'
import { PNG } from 'pngjs'
import t from 'tap'
import { startBrowser } from './browser.js'
import { conversation } from './screens/conversation.js'
import { executable, skip } from './visit.js'

/*
 * Pictures of each page at three widths in both themes, compared with those that were accepted. Each is looked at
 * before it is: `SCREENSHOTS=accept npx tap run packages/cli/test/web/screenshots.test.ts` writes them. What the page
 * is told was recorded from a server under load (`answers.json`), so that it is the same each time.
 */
const folder = new URL('screens/', import.meta.url)
const isAccepting = process.env['SCREENSHOTS'] === 'accept'
const origin = 'http://localhost:9'
/** The share of pixels that may differ. */
const tolerance = 0.002

const answers = JSON.parse(await readFile(new URL('answers.json', folder), 'utf8')) as Record<
  string,
  unknown
>
const types: Readonly<Record<string, string>> = {
  html: 'text/html',
  js: 'text/javascript',
  css: 'text/css',
  svg: 'image/svg+xml',
}

/** The page's files, and what a server told it. */
async function answer(context: BrowserContext): Promise<void> {
  await context.route(`${origin}/**`, async (route) => {
    const path = new URL(route.request().url()).pathname
    if (path.startsWith('/ui/')) {
      const name = path === '/ui/' ? 'index.html' : path.slice('/ui/'.length)
      const contentType = types[name.split('.').at(-1) ?? ''] ?? 'font/woff2'
      const body = await readFile(new URL(name, pageFolder))
      return await route.fulfill({ body, contentType })
    }
    const json = answers[path]
    if (json === undefined) return await route.fulfill({ status: 404, json: { error: path } })
    return await route.fulfill({ json })
  })
}

/** In the page: the live view begins with what was recorded, and stays open. */
const openStream = `{
  const before = fetch
  globalThis.fetch = async (url, call) => {
    const response = await before(url, call)
    if (!String(url).includes('admin/live')) return response
    const event = 'data: ' + JSON.stringify(await response.json()) + '\\n\\n'
    const start = (to) => to.enqueue(new TextEncoder().encode(event))
    return new Response(new ReadableStream({ start }))
  }
}`

/** The pages, and what there is when each can be looked at. */
const pages: Readonly<Record<string, (page: Page) => Promise<unknown>>> = {
  welcome: async (page) => await page.getByText('What would you like').waitFor(),
  async chat(page) {
    const buffer = Buffer.from(JSON.stringify(conversation))
    const file = { name: 'a.json', mimeType: 'application/json', buffer }
    await page.getByLabel('Import a conversation').setInputFiles(file)
    await page.getByRole('button', { name: 'Dismiss' }).click()
    await page.locator(`button:text-is("${conversation.title}")`).dispatchEvent('click')
    await page.locator('.formula .katex-display').waitFor()
    await page.locator('.code .hljs-keyword').first().waitFor()
    await page.locator('.turn.user img').waitFor()
    await page.evaluate('scrollTo(0, 0)') // an opened conversation shows its end
  },
  async scheduler(page) {
    await page.getByText('In force: ').waitFor()
    await page.getByText('tokens reused').waitFor()
  },
  async lab(page) {
    await page.getByRole('button', { name: 'Run' }).click()
    await page.getByRole('button', { name: 'Apply adaptive+sjf' }).waitFor()
    await page.evaluate('document.activeElement.blur()')
  },
  models: async (page) => await page.getByText('TinyLlama').first().waitFor(),
  keys: async (page) => await page.getByRole('row', { name: /^support/ }).waitFor(),
  usage: async (page) => await page.getByText('Cached tokens are prompt tokens').waitFor(),
}

/** The edges of letters in fewer colours, so that files are half as large; areas and lines keep theirs. */
function coarse(bytes: Buffer): PNG {
  const image = PNG.sync.read(bytes)
  const before = new Uint32Array(Uint8Array.from(image.data).buffer)
  for (const [at, pixel] of before.entries()) {
    if (pixel === before[at - 1] || pixel === before[at + 1]) continue
    for (let byte = 4 * at; byte < 4 * at + 3; byte++) {
      image.data[byte] = 25.5 * Math.round((image.data[byte] ?? 0) / 25.5)
    }
  }
  return image
}

t.test('each page looks as it was accepted', { skip, timeout: 300_000 }, async (t) => {
  const browser = await startBrowser(t, executable!)
  const context = await browser.newContext({
    locale: 'en-GB',
    timezoneId: 'UTC',
    reducedMotion: 'reduce',
  })
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  await page.clock.setFixedTime(Date.UTC(2026, 10, 24, 12))
  await answer(context)
  await page.addInitScript(openStream)
  await page.goto(`${origin}/ui/`)
  // Fonts differ between machines, also with the same browser.
  const width = await page.evaluate<number>(
    "(() => { const c = document.createElement('canvas').getContext('2d'); c.font = '20px system-ui'; return c.measureText('The quick brown fox').width })()",
  )
  const machine = `Chromium ${browser.version()}, ${width} pixels for a line\n`
  const note = new URL('machine.txt', folder)
  if (isAccepting) {
    await mkdir(folder, { recursive: true })
    await writeFile(note, machine)
  }
  const accepted = await readFile(note, 'utf8')
  if (accepted !== machine) {
    return void t.pass(`skipped: they were taken with ${accepted.trim()}, this is ${machine}`, {
      skip: `${machine.trim()} draws otherwise than ${accepted.trim()}`,
    })
  }
  for (const [name, isReady] of Object.entries(pages)) {
    for (const [width, height] of [
      [390, 844],
      [820, 1000],
      [1280, 720],
    ] as const) {
      await page.setViewportSize({ width, height })
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        await page.goto('about:blank')
        await page.goto(`${origin}/ui/#${name === 'welcome' ? 'chat' : name}`)
        await isReady(page)
        await page.evaluate('document.fonts.ready.then(() => undefined)')
        const shot = coarse(await page.screenshot({ animations: 'disabled' }))
        const file = `${name}-${width}-${colorScheme}`
        const path = fileURLToPath(new URL(`${file}.png`, folder))
        if (isAccepting) {
          const options = {
            colorType: 2,
            deflateLevel: 9,
            deflateStrategy: 0,
            filterType: 0,
          } as const
          await writeFile(path, PNG.sync.write(shot, options))
          continue
        }
        const before = PNG.sync.read(await readFile(path))
        const size = ({ width, height }: PNG): string => `${width} × ${height}`
        if (!t.equal(size(shot), size(before), `${file}: its size`)) continue
        const count = pixelmatch(before.data, shot.data, undefined, shot.width, shot.height)
        const share = count / (shot.width * shot.height)
        t.ok(share <= tolerance, `${file}: ${(100 * share).toFixed(2)} % of its pixels differ`)
      }
    }
  }
})
