import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { auditAll, type Visit } from './browser.js'

/** A made load, the last minutes and files, through policies, and one of them applied. */
export async function lab(t: Test, { page, url, shoot }: Visit): Promise<void> {
  await page.getByRole('link', { name: 'Lab' }).click()
  await page.getByLabel('Requests', { exact: true }).fill('40')
  const rate = page.getByLabel('Requests per second')
  await rate.fill('')
  t.equal(await rate.inputValue(), '', 'a number that is being typed stays as it is')
  await rate.pressSequentially('2.5')
  t.equal(await rate.inputValue(), '2.5')
  const run = page.getByRole('button', { name: 'Run' })
  const worker = '**/lab-worker-*'
  await page.route(worker, async (route) => await route.fulfill({ status: 404 }))
  await run.click()
  await page.getByText(/^The lab could not be loaded: .*Reload the page/).waitFor()
  await page.unroute(worker)
  await run.click()
  const results = page.getByRole('region', { name: 'Results' })
  await results.getByRole('columnheader', { name: 'adaptive+sjf' }).waitFor()
  t.match(await results.innerText(), /TTFT p50\s+[\d.]+ m?s.*\s+[\d.]+ m?s/)

  await page.getByLabel('Source').selectOption('a file')
  await run.click()
  await page.getByText('Choose a file first').waitFor()
  const trace = 'TIMESTAMP,ContextTokens,GeneratedTokens\n'
  const rows = Array.from({ length: 9 }, (_, at) => `2023-11-16 18:15:4${at},${300 + at},20\n`)
  const file = {
    name: 'trace.csv',
    mimeType: 'text/csv',
    buffer: Buffer.from(trace + rows.join('')),
  }
  await page.getByLabel(/^File/).setInputFiles(file)
  await page.getByText('trace.csv: a trace').waitFor()
  await page.getByLabel('Order of policy 2').selectOption('own')
  await page.getByLabel(/^The order own/).fill('-request.promptTokens')
  await run.click()
  await results.getByRole('columnheader', { name: 'adaptive+own' }).waitFor()
  await auditAll(t, page)
  await charts(t, page)
  await page.getByLabel(/^File/).setInputFiles({ ...file, buffer: Buffer.from(`${trace}1,2\n`) })
  await run.click()
  await page.getByText(/adaptive\+own: trace\.csv:2: /).waitFor()

  const recording = await (await fetch(`${url}/admin/recorder`)).text()
  await page.evaluate(`(() => {
    const dataTransfer = new DataTransfer()
    dataTransfer.items.add(new File([${JSON.stringify(recording)}], 'recording.json'))
    const drop = new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true })
    document.querySelector('[aria-label="Load"]').dispatchEvent(drop)
  })()`)
  await page.getByText('recording.json: a recording').waitFor()
  t.equal(await page.getByLabel('Slots').inputValue(), '4', 'as it was recorded')
  await page.getByLabel('Machine').selectOption('8B on a large GPU')
  await page.getByLabel('Batching of policy 2').selectOption('static')
  await page.getByLabel('Order of policy 2').selectOption('fcfs')
  await run.click()
  await page.getByRole('button', { name: 'Apply static+fcfs' }).waitFor()

  await page.getByLabel('Source').selectOption("this server's last minutes")
  await run.click()
  const load = page.getByText(/[\d,]+ requests and [\d,]+ steps of/)
  await load.waitFor()
  await page.getByRole('button', { name: 'Apply static+fcfs' }).waitFor()
  t.match(await results.innerText(), /✓/, 'which one is better shows')
  await shoot('lab', results, load)
  await page.getByRole('button', { name: 'Apply adaptive+fcfs' }).click()
  await page.getByRole('button', { name: /^Yes, use adaptive\+fcfs/ }).click()
  await page.getByText('adaptive+fcfs is in force on the server').waitFor()
  t.match(await (await fetch(`${url}/admin/scheduler`)).json(), {
    data: { policy: 'adaptive+fcfs' },
  })
  await removed(t, page)
}

/** Of two policies that differ in an option, the one that is left keeps its own, and results have it in their names. */
async function removed(t: Test, page: Page): Promise<void> {
  const budget = (nth: number) =>
    page.getByRole('group', { name: `Policy ${nth}` }).getByLabel('tokenBudget')
  for (const nth of [1, 2]) {
    await page.getByLabel(`Batching of policy ${nth}`).selectOption('chunked')
    await page.getByLabel(`Order of policy ${nth}`).selectOption('fcfs')
    await page.getByText(`Options of policy ${nth}`).click()
    await budget(nth).fill(String(100 * nth))
  }
  await page.getByRole('button', { name: 'Remove policy 1' }).click()
  await page.getByRole('group', { name: 'Policy 2' }).waitFor({ state: 'detached' })
  t.equal(await budget(1).inputValue(), '200')
  await page.getByRole('button', { name: 'Add policy' }).click()
  await page.getByLabel('Source').selectOption('synthetic load')
  await page.getByRole('button', { name: 'Run' }).click()
  await page.getByRole('button', { name: 'Apply chunked+fcfs', exact: true }).waitFor()
  const names = page.getByRole('region', { name: 'Results' }).getByRole('columnheader')
  t.same(await names.allInnerTexts(), ['chunked+fcfs tokenBudget=200', 'chunked+fcfs'])
}

/** A chart has axes, tells its values to pointers and keys, and can be saved. */
async function charts(t: Test, page: Page): Promise<void> {
  const chart = page.getByRole('region', { name: 'TTFT' })
  t.match(await chart.locator('svg[data-plot]').textContent(), /100 %.*share of requests/s)
  await chart.getByRole('group').press('ArrowRight')
  await chart.getByText(/^adaptive\+own: \d+ %$/).waitFor()
  await chart.getByRole('group').blur()
  await chart.getByRole('group').hover()
  await chart.getByText(/^adaptive\+own: \d+ %$/).waitFor()
  for (const kind of ['PNG', 'CSV']) {
    const saved = page.waitForEvent('download')
    await chart.getByRole('button', { name: `Save TTFT as ${kind}` }).click()
    const file = await saved
    t.equal(file.suggestedFilename(), `TTFT.${kind.toLowerCase()}`)
    const bytes = await readFile(await file.path())
    t.match(bytes.toString('latin1'), kind === 'PNG' ? /^\x89PNG/ : /^series,.*\n"adaptive/)
  }
}
