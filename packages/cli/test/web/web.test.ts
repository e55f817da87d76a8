import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { silentLogger } from '@cllm/core'
import { writeSyntheticProjector } from '@cllm/gguf'
import { protocolsPlugin, Services } from '@cllm/http-koa'
import t, { type Test } from 'tap'
import { findNativeLibraries } from '../../src/engine/native-library.js'
import { loadConfig } from '../../src/config/load-config.js'
import { createProtocols } from '../../src/api/http-options.js'
import { loadRegistry } from '../../src/plugins/load-registry.js'
import { serve, serveAnew } from '../serve-process.js'
import { startBrowser } from './browser.js'
import { inside } from '../inside.js'
import { images, picture, textOnly } from './attachments.js'
import { chatsAndBranches, keepsAll, stops, toolsByHand, toolsByMcp } from './chat.js'
import { conversations, deletedEarly, filesAndPairs, troubles } from './conversations.js'
import { switchedOff } from './keys.js'
import { lab } from './lab.js'
import { keepsFocus, keyboard, models } from './models.js'
import { newcomer } from './newcomer.js'
import { executable, skip, visit } from './visit.js'

/** The configuration of a server that has an MCP server's tools. */
function withTools(t: Test): string {
  const entry = '../../../http-koa/test/protocols/mcp/tool-server.mjs'
  const weather = {
    command: process.execPath,
    args: [fileURLToPath(new URL(entry, import.meta.url)), 'forecast'],
  }
  const config = { server: { protocol_options: { mcp: { servers: { weather } } } } }
  return join(t.testdir({ 'cllm.yaml': JSON.stringify(config) }), 'cllm.yaml')
}

t.test('the page of a server without keys, used as a person would', { skip }, async (t) => {
  const [{ url }, browser] = await Promise.all([
    serveAnew(t, '--model', 'stories15m', '--slots', '4', '--config', withTools(t)),
    startBrowser(t, executable!),
  ])
  const step = await visit(t, browser, url)
  await step('a newcomer: a chat, a shared prefix, another policy under load', newcomer)
  await step('chat: settings, figures, edit, regenerate, branches', chatsAndBranches)
  await step('chat: a reload and a second tab lose nothing', keepsAll)
  await step('chat: the list of conversations', conversations)
  await step('chat: tools, whose results are typed in', toolsByHand)
  await step('chat: a tool of an MCP server, run when its reader agrees', toolsByMcp)
  await step('chat: stopped', stops)
  await step('chat: files, presets, two answers beside each other', filesAndPairs)
  await step('chat: deleted while it is answered', deletedEarly)
  await step('chat: an answer that breaks off, a browser without room', troubles)
  await step('chat: a PDF, and an image that the model cannot see', textOnly)
  await step('everything by keyboard: a page, a message, its answer', keyboard)
  await step('everything by keyboard: the focus is seen', keepsFocus)
  await step('lab: a synthetic load, files and the last minutes, and one policy applied', lab)
  await step('models: unloaded, loaded, and one that no source has', models)
  await step('keys and usage: off, nothing is asked', switchedOff)
})

const { mediaLibrary } = await findNativeLibraries(process.env, silentLogger)
const library = process.env['CLLM_MEDIA_LIBRARY'] ?? mediaLibrary
const unseen = library === undefined && 'libmtmd is not here: `cllm native build` builds it'

t.test('images in the chat, to a model that sees', { skip: skip || unseen }, async (t) => {
  const projector = join(t.testdir(), 'mmproj.gguf')
  await writeSyntheticProjector({ out: projector, width: 288 })
  const [{ url }, browser] = await Promise.all([
    serve(t, '--model', 'stories15m', '--mmproj', projector, '--media-library', library!),
    startBrowser(t, executable!),
  ])
  const file = join(t.testdirName, 'a.png')
  await writeFile(file, picture(300, 200))
  const told = ['--url', url, '--verbose', '--parameter', 'max_tokens=9']
  const seen = await inside(['run', 'stories15m', 'See?', ...told, '--image', file])
  const blind = await inside(['run', 'stories15m', 'See?', ...told])
  const tokens = ({ stderr }: typeof seen) => Number(/^prompt +(\d+)/m.exec(stderr)?.[1])
  t.match(seen, { code: 0, stderr: /answer +9 tokens/ })
  t.equal(tokens(seen) - tokens(blind), 16, 'the terminal shows it images, too')
  const step = await visit(t, browser, url)
  await step('chat: images', images)
})

t.test('a setting turns it off', async (t) => {
  const registry = await loadRegistry([], '.', [protocolsPlugin])
  const routes = (...argv: string[]) =>
    createProtocols(loadConfig({ argv, env: {} }), registry, new Services()).flatMap(
      ({ name, routes = [] }) => (name === 'web' ? routes.map(({ path }) => path) : []),
    )
  t.same(routes(), ['/', '/ui', '/ui/*file'])
  t.same(routes('--no-ui'), [])
})
