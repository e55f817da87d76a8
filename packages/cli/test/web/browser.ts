import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import axe from 'axe-core'
import { chromium, type Browser, type Locator, type Page } from 'playwright-core'
import type { Test } from 'tap'

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

/** A browser of this machine, or undefined. */
export function findBrowser(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(existsSync)
}

/** Starts it without a window. */
export async function startBrowser(t: Test, executablePath: string): Promise<Browser> {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']
  const browser = await chromium.launch({ executablePath, args })
  t.teardown(async () => await browser.close())
  return browser
}

/** What a page did that it should not have: asked elsewhere, broke its policy, threw. */
export function watchPage(page: Page, url: string): string[] {
  const wrong: string[] = []
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url())
    if (protocol !== 'blob:' && origin !== url) wrong.push(`asked ${request.url()}`)
  })
  page.on('pageerror', (error) => wrong.push(`threw ${error.stack ?? error.message}`))
  page.on('console', (message) => {
    if (
      message.type() === 'error' &&
      !/status of (40[0134]|503)|net::ERR_FAILED/.test(message.text())
    ) {
      wrong.push(`logged ${message.text()}`)
    }
  })
  return wrong
}

/** What axe-core finds wrong with a page as it is: all, or with its colours. */
export async function auditPage(page: Page, only?: 'colours'): Promise<string[]> {
  // The page's policy runs no script but its own, so this one comes from the browser's side, once.
  if (!(await page.evaluate<boolean>('"axe" in globalThis'))) await page.evaluate(axe.source)
  const rules = only === undefined ? '' : ", runOnly: ['color-contrast']"
  return await page.evaluate<string[]>(
    `axe.run(document, { resultTypes: ['violations']${rules} }).then(({ violations }) => violations.flatMap(
      ({ id, nodes }) => nodes.map(({ html, failureSummary }) => id + ': ' + html + ' ' + failureSummary)))`,
  )
}

/** Elements that a phone cannot show, unless they can be scrolled. */
const tooWide = `[...document.body.querySelectorAll('*')]
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.scroll, pre, .sr-only'))
  .map((each) => each.outerHTML.slice(0, 200))
  .concat(document.documentElement.scrollWidth > innerWidth ? ['the page'] : [])`

/** What is needed here of an element in the browser, whose types are not known. */
interface Part {
  readonly innerHTML: string
  getBoundingClientRect(): { readonly right: number }
  querySelectorAll(all: '*'): Iterable<Part>
}

/** The parts of a region that only show when it is scrolled sideways, looked for at once: the page draws anew at any time. */
export async function clipped(region: Locator): Promise<string[]> {
  return await region.evaluate((whole: Part) => {
    const { right } = whole.getBoundingClientRect()
    const beyond = [...whole.querySelectorAll('*')].filter(
      (part) => part.getBoundingClientRect().right > right + 1,
    )
    return beyond.map(({ innerHTML }) => innerHTML)
  })
}

/** Whether questions are written at the bottom of the window, and nothing is beyond its sides, at these widths. */
export async function isDocked(t: Test, page: Page): Promise<void> {
  const size = page.viewportSize()!
  for (const width of [1280, 768, 390]) {
    await page.setViewportSize({ width, height: 800 })
    const { y, height } = (await page.getByRole('form', { name: 'Question' }).boundingBox())!
    t.ok(y + height <= 800 && y + height > 770, `docked, ${width} pixels wide: ${y + height}`)
    t.same(await page.evaluate<string[]>(tooWide), [], `nothing is beyond ${width} pixels`)
  }
  await page.setViewportSize(size)
}

/** What is wrong with a page for who cannot see it, in both themes and on a phone. */
export async function auditAll(t: Test, page: Page): Promise<void> {
  t.same(await auditPage(page), [], 'light')
  await page.getByRole('button', { name: 'Dark' }).click()
  t.same(await auditPage(page, 'colours'), [], 'dark')
  await page.getByRole('button', { name: 'Light' }).click()
  const size = page.viewportSize()!
  await page.setViewportSize({ width: 360, height: 740 })
  t.same(await page.evaluate<string[]>(tooWide), [], 'it fits a phone')
  await page.setViewportSize(size)
}

/** How far a page has moved by itself since it was opened: the sum of its layout shifts. */
export const layoutShift = async (page: Page): Promise<number> =>
  await page.evaluate<number>(`new Promise((resolve) => {
    let sum = 0
    const add = ({ value }) => (sum += value)
    new PerformanceObserver((list) => list.getEntries().forEach(add)).observe({ type: 'layout-shift', buffered: true })
    setTimeout(() => resolve(sum), 200)
  })`)

/** Something to wait for until the test says so. */
export function gate(): { readonly isOpen: Promise<void>; readonly open: () => void } {
  let open = (): void => {}
  const isOpen = new Promise<void>((resolve) => (open = resolve))
  return { isOpen, open: () => open() }
}

/** Goes to a link, button or field as somebody without a mouse does. */
export async function tabTo(page: Page, name: string): Promise<void> {
  const focused = '((each) => each?.ariaLabel ?? each?.textContent)(document.activeElement)'
  for (let count = 0; count < 30; count++) {
    await page.keyboard.press('Tab')
    if ((await page.evaluate<string>(focused)) === name) return
  }
  throw new Error(`The tab key does not lead to ${name}`)
}

/** Changes the chat's settings, which are in front of the page meanwhile. */
export async function withSettings(page: Page, change: () => Promise<void>): Promise<void> {
  await page.getByRole('button', { name: 'Settings', exact: true }).click()
  await change()
  await page.getByRole('button', { name: 'Close the settings' }).click()
}

/** A page of a server, as one of its users has it. */
export interface Visit {
  readonly page: Page
  readonly url: string
  /** Makes a picture for the docs, once something shows and another is in view, where the environment asks for pictures. */
  readonly shoot: (name: string, once?: Locator, at?: Locator) => Promise<void>
}
