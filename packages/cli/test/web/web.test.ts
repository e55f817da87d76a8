import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { protocolsPlugin, Services } from '@cllm/http-koa'
import type { Browser, Locator, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { loadConfig } from '../../src/config/load-config.js'
import { createProtocols } from '../../src/http/create-protocols.js'
import { createKey } from '../../src/keys/key-file.js'
import { loadRegistry } from '../../src/plugins/load-registry.js'
import { serve } from '../serve-process.js'
import { findBrowser, startBrowser, type Visit, watchPage } from './browser.js'
import { chatsAndBranches, keepsAll, richAnswers, stops, toolsByHand } from './chat.js'
import { asksForKey, keepsChat, keysPage, switchedOff, usage } from './keys.js'
import { lab } from './lab.js'
import { keyboard, models } from './models.js'
import { newcomer } from './newcomer.js'

const executable = findBrowser()
const skip = executable === undefined && 'there is no Chromium on PATH'
/** Where the pictures of the docs are put, where the environment asks for them. */
const pictures = new URL('../../../../docs/images/', import.meta.url)

async function shoot(page: Page, name: string, once?: Locator): Promise<void> {
  if (process.env['SCREENSHOTS'] === undefined) return
  await once?.waitFor({ timeout: 60_000 })
  await mkdir(pictures, { recursive: true })
  await page.evaluate('scrollTo(0, 0)')
  await page.screenshot({ path: fileURLToPath(new URL(`${name}.png`, pictures)) })
}

/** Uses a page as a person does, in steps that tell each for itself whether all was well. */
async function visit(t: Test, browser: Browser, url: string) {
  const context = await browser.newContext({
    colorScheme: 'light',
    acceptDownloads: true,
    viewport: { width: 1100, height: 760 },
  })
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  const wrong = watchPage(page, url)
  const all: Visit = { page, url, shoot: async (name, once) => await shoot(page, name, once) }
  return async (name: string, run: (t: Test, visit: Visit) => Promise<void>) => {
    await t.test(name, async (t) => {
      await run(t, all)
      t.same(wrong.splice(0), [], 'it asked nobody else, and nothing failed')
    })
  }
}

/** What the server with keys says: its model, of letters, goes on as in a text that it has read. */
const answers = `user: How is a mean computed?

The **mean** of $n$ numbers is their sum over $n$:

$$
\\bar{x} = \\frac{1}{n} \\sum_{i=1}^{n} x_i
$$

\`\`\`js
const mean = (all) => all.reduce((a, b) => a + b, 0) / all.length // NaN of none
\`\`\`

| numbers | mean |
|---|---:|
| 1, 2, 6 | 3 |
`
const letters = fileURLToPath(
  new URL('../../../../examples/backend-plugin/ngram-plugin.js', import.meta.url),
)

t.test('the page, used as a person would', { skip }, async (t) => {
  const { secret, key } = createKey({ name: 'ops', tenant: 'ops', role: 'admin' })
  const user = createKey({ name: 'eve', tenant: 'eve', role: 'user' })
  const keys = JSON.stringify({ keys: [key, user.key] })
  const folder = t.testdir({ 'answers.md': answers, 'keys.json': keys })
  const of = (name: string): string => join(folder, name)
  const withLetters =
    `--plugin ${letters} --backend ngram --backend-options {"order":16} --ctx-size 1024 --model`
      .split(' ')
      .concat(of('answers.md'))
  const [plain, keyed, browser] = await Promise.all([
    serve(t, '--model', 'stories15m', '--slots', '4'),
    serve(t, ...withLetters, '--api-keys', of('keys.json'), '--usage', of('usage')),
    startBrowser(t, executable!),
  ])

  const step = await visit(t, browser, plain.url)
  await step('a newcomer: a chat, a shared prefix, another policy under load', newcomer)
  await step('chat: settings, figures, edit, regenerate, branches', chatsAndBranches)
  await step('chat: a reload and a second tab lose nothing', keepsAll)
  await step('chat: tools, whose results are typed in', toolsByHand)
  await step('chat: stopped', stops)
  await step('lab: a made load, files and the last minutes, and one policy applied', lab)
  await step('models: unloaded, loaded, and one that no source has', models)
  await step('everything by keyboard: a page, a message, its answer', keyboard)

  const keyedStep = await visit(t, browser, keyed.url)
  await keyedStep('a key is asked for', async (t, visit) => await asksForKey(t, visit, secret))
  await keyedStep('usage: sums, and a file', async (t, visit) => await usage(t, visit, secret))
  await keyedStep('keys: made, shown once, revoked', keysPage)
  await keyedStep('chat: code, formulas, tables', richAnswers)
  await keyedStep('a user chats, whatever else is refused', async (t, visit) => {
    await keepsChat(t, visit, { user: user.secret, admin: secret })
  })
  await step('keys and usage: off, nothing is asked', switchedOff)
})

t.test('a setting turns it off', async (t) => {
  const registry = await loadRegistry(
    { plugins: [], pluginsFolder: '.' },
    { builtIns: [protocolsPlugin] },
  )
  const routes = (...argv: string[]) =>
    createProtocols(loadConfig({ argv, env: {} }), registry, new Services()).flatMap(
      ({ name, routes = [] }) => (name === 'web' ? routes.map(({ path }) => path) : []),
    )
  t.same(routes(), ['/', '/ui', '/ui/*file'])
  t.same(routes('--no-ui'), [])
})
