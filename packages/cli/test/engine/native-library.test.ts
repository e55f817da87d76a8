import { createRequire } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import { packagedLibrary } from '../../src/engine/native-library.js'

t.test('what encodes images is found in a package', async (t) => {
  const name = '@cllm/media-linux-x64'
  const manifest = JSON.stringify({ name, version: '1.0.0', main: 'libcllm-media.so' })
  const files = { 'package.json': manifest, 'libcllm-media.so': '' }
  const folder = t.testdir({ node_modules: { '@cllm': { 'media-linux-x64': files } } })
  const { resolve } = createRequire(join(folder, 'index.js'))
  const features = ['avx', 'avx2', 'bmi1', 'bmi2', 'f16c', 'fma']
  const machine = { platform: 'linux', arch: 'x64', cpu: 'A CPU', features } as const
  t.equal(packagedLibrary(machine, resolve), join(folder, 'node_modules', name, 'libcllm-media.so'))
  t.equal(packagedLibrary({ ...machine, features: ['avx'] }, resolve), undefined, 'an older CPU')
  t.equal(packagedLibrary({ ...machine, arch: 'arm64' }, resolve), undefined, 'another kind')
  t.equal(packagedLibrary(machine), undefined, 'not installed')
})
