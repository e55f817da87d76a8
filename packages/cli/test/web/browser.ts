import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import axe from 'axe-core'
import { chromium, type Browser, type Page } from 'playwright-core'
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
    if (message.type() === 'error' && !/status of 40[13]/.test(message.text())) {
      wrong.push(`logged ${message.text()}`)
    }
  })
  return wrong
}

/** What axe-core finds wrong with a page as it is. */
export async function auditPage(page: Page): Promise<string[]> {
  // The page's policy runs no script but its own, so this one comes from the browser's side.
  await page.evaluate(axe.source)
  return await page.evaluate<string[]>(
    `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.flatMap(
      ({ id, nodes }) => nodes.map(({ html, failureSummary }) => id + ': ' + html + ' ' + failureSummary)))`,
  )
}
