"""GPUs as nvidia-smi prints them in XML."""

from __future__ import annotations

from gpu_docs import gaps, gpus, node, uuid, xml_gpu, xml_log


def test_xml_tells_everything_of_each_gpu() -> None:
    """Index, names, load, power, health and processes are read, with the line of the GPU."""
    text = node(host="n1")
    devices = gpus(text, "n1/smi.xml", "n1")

    assert [gpu.index for gpu in devices] == list(range(8))
    gpu = devices[1]
    assert (gpu.who.host, gpu.uuid, gpu.bus) == ("n1", uuid(1, "n1"), "0000:43:00")
    assert (gpu.busy, gpu.memory_busy, gpu.power, gpu.power_limit) == (100, 0, 118.2, 700)
    assert (gpu.memory_used, gpu.memory_total, gpu.temperature) == (65710, 143771, 33)
    assert (gpu.driver, gpu.cuda, gpu.pstate, gpu.compute_mode) == (
        *("570.86.10", "12.8", "P0", "Default"),
    )
    assert gpu.sm_clock == 1980
    assert gpu.ecc_uncorrected == 0
    assert (gpu.remap_pending, gpu.remap_failed, gpu.retire_pending) == (False, False, None)
    assert (gpu.mig, gpu.reasons, gpu.fabric, gpu.recovery) == (False, (), "Completed", None)
    assert [(p.pid, p.memory, p.name) for p in gpu.processes or ()] == [
        (1001, 65700, "/usr/bin/python3")
    ]
    assert text.splitlines()[(gpu.source.line or 0) - 1].strip().startswith("<gpu id=")
    assert gpu.taken_at == 1782911213.0


def test_xml_of_old_drivers() -> None:
    """Before 535 sections had other names, and ECC counted single and double bits."""
    text = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v10.dtd">
<nvidia_smi_log><timestamp>Wed May 15 10:00:00 2019</timestamp>
<driver_version>418.67</driver_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:06:00.0"><product_name>Tesla V100-SXM2-32GB</product_name>
<uuid>GPU-aa</uuid><pci><pci_bus_id>00000000:06:00.0</pci_bus_id></pci>
<clocks_throttle_reasons><clocks_throttle_reason_hw_slowdown>Active</clocks_throttle_reason_hw_slowdown
><clocks_throttle_reason_gpu_idle>Not Active</clocks_throttle_reason_gpu_idle>
</clocks_throttle_reasons>
<utilization><gpu_util>7 %</gpu_util><memory_util>N/A</memory_util></utilization>
<ecc_errors><volatile><single_bit><total>3</total></single_bit>
<double_bit><device_memory>1</device_memory><total>1</total></double_bit></volatile>
<aggregate><double_bit><total>N/A</total></double_bit></aggregate></ecc_errors>
<retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>
<power_readings><power_draw>41.10 W</power_draw><power_limit>300.00 W</power_limit></power_readings>
<temperature><gpu_temp>30 C</gpu_temp></temperature><processes></processes></gpu>
</nvidia_smi_log>"""
    (gpu,) = gpus(text)

    assert (gpu.power, gpu.power_limit, gpu.busy, gpu.memory_busy) == (41.1, 300, 7, None)
    assert gpu.ecc_uncorrected == 1
    assert (gpu.retire_pending, gpu.reasons, gpu.processes) == (True, ("hw_slowdown",), ())


def test_xml_of_new_drivers() -> None:
    """From 555 on ECC errors are split by kind, power has three readings, recovery a name."""
    block = xml_gpu(0).replace(
        "<sram_uncorrectable>0</sram_uncorrectable>",
        "<sram_uncorrectable_parity>1</sram_uncorrectable_parity>"
        "<sram_uncorrectable_secded>2</sram_uncorrectable_secded>",
        1,
    )
    block = block.replace("<power_draw>118.20 W</power_draw>", "<average_power_draw>99.50 W"
    "</average_power_draw><instant_power_draw>120.00 W</instant_power_draw>")  # fmt: skip
    block = block.replace("<pci>", "<gpu_recovery_action>Drain P2P</gpu_recovery_action><pci>")
    (gpu,) = gpus(xml_log([block]).replace("v12.dtd", "v13.dtd"))

    assert (gpu.ecc_uncorrected, gpu.power, gpu.recovery) == (3, 99.5, "Drain P2P")


def test_words_in_place_of_a_value() -> None:
    """N/A is no value; an error in its place is a trouble, and told with its name."""
    devices = gpus(
        node({2: {"busy": "N/A", "power": "[Unknown Error]"}, 5: {"busy": "GPU requires reset"}})
    )

    assert (devices[2].busy, devices[2].power) == (None, None)
    assert devices[2].trouble == "gpu_power_readings.power_draw: [Unknown Error]"
    assert devices[5].trouble == "utilization.gpu_util: GPU requires reset"
    assert not devices[2].lost
    assert gpus(node({1: {"mode": "GPU is lost"}}))[1].lost


def test_truncated_xml_gives_its_whole_gpus() -> None:
    """A file that was cut off loses the GPU it was cut in, and says how many there were."""
    whole = node()
    cut = whole[: whole.index('<gpu id="00000000:C3') + 900]

    assert [gpu.index for gpu in gpus(cut)] == [0, 1, 2, 3, 4]
    (gap,) = gaps(cut)
    assert "5 of 8 GPUs" in gap.why


def test_one_damaged_gpu_costs_only_itself() -> None:
    """The GPUs around it keep their numbers."""
    broken = node().replace(uuid(3), "<<&", 1)

    assert [gpu.index for gpu in gpus(broken)] == [0, 1, 2, 4, 5, 6, 7]
    assert len(gaps(broken)) == 1


def test_no_entity_is_ever_expanded() -> None:
    """The document type never reaches the parser: a bomb is a damaged GPU, quickly."""
    bomb = (
        '<?xml version="1.0"?>\n<!DOCTYPE nvidia_smi_log [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">'
        '<!ENTITY x SYSTEM "file:///etc/hostname">]>\n'
        '<nvidia_smi_log><attached_gpus>2</attached_gpus><gpu id="00000000:06:00.0">'
        "<product_name>&b;&x;</product_name></gpu>"
        '<gpu id="00000000:07:00.0"><product_name>good</product_name></gpu></nvidia_smi_log>'
    )
    devices = gpus(bomb)

    assert [(gpu.index, gpu.name) for gpu in devices] == [(1, "good")]
    assert "1 of 2" in gaps(bomb)[0].why


def test_xml_samples_in_one_file_are_looks() -> None:
    """``nvidia-smi -q -x -l`` prints one document after the other."""
    devices = gpus(xml_log([xml_gpu(0)]) + xml_log([xml_gpu(0, busy="0 %")]))

    assert [(gpu.look, gpu.busy) for gpu in devices] == [(0, 100), (1, 0)]


def test_xml_of_one_chosen_gpu_has_no_index() -> None:
    """With -i the number is not told, and the first printed is not number 0."""
    text = xml_log([xml_gpu(3)]).replace("<attached_gpus>1<", "<attached_gpus>8<")
    (gpu,) = gpus(text)

    assert (gpu.index, gpu.bus) == (None, "0000:61:00")
    assert not gaps(text)
