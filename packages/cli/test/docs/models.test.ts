// slow: the templates of all models that llama.cpp knows, 6 s
import { execFileSync } from 'node:child_process'
import t from 'tap'
import { checkKnownTemplates } from '../../../../tools/docs/models/render-models-docs.js'

/** The templates come as a git bundle. */
function hasGit(): boolean {
  try {
    execFileSync('git', ['--version'], { stdio: 'pipe' })
    return true
  } catch {
    return false
  }
}

t.test('the calls and the reasoning of all models that llama.cpp knows are read', async (t) => {
  if (!hasGit()) {
    t.pass('skipped: there is no git to read the source bundle with')
    return
  }
  const checks = await checkKnownTemplates()
  t.ok(checks.size >= 70, `${checks.size} templates`)
  for (const [name, check] of checks) {
    t.equal(check.renders, true, `${name} renders`)
    t.not(check.call, false, `${name}: a call`)
    t.not(check.severalCalls, false, `${name}: several calls`)
    t.not(check.splitsThinking, false, `${name}: reasoning`)
    // what gpt-oss writes is not what its template shows
    t.equal(check.isHeld, name.includes('gpt-oss') ? false : check.call, `${name}: a strict call`)
  }
  const all = [...checks.values()]
  t.ok(all.filter(({ call }) => call === true).length >= 62, 'templates that show calls')
  t.ok(
    all.filter(({ splitsThinking }) => splitsThinking === true).length >= 28,
    'that show thoughts',
  )
  const kept = all.filter(({ laterSystem }) => laterSystem === 'in place').length
  t.ok(kept >= 46, `${kept} keep later messages of the system in their place`)
  const streamed = all.filter(({ streams }) => streams === true).length
  t.ok(streamed >= 58, `${streamed} give arguments while they are written`)
})
